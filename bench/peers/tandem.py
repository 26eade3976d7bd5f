"""Tandem's side of the comparison."""
import ctypes as c

import numpy as np

from tandem_api import (F32, I4, I8, PER_CHANNEL, PER_TENSOR, UNSCALED, VERSION, GqaArgs, GqaDesc, KvAppendArgs,
                        KvAppendDesc, KvCache, KvData, Op, Options, Tensor, address)

DTYPE = {32: F32, 8: I8, 4: I4}


def tokens(case, heads, count):
    """[batch, count, heads * head_dim] floats, seen as [batch, heads, count, head_dim]."""
    row = case.head_dim * 4
    return Tensor(dtype=F32, rank=4, dim=(case.batch, heads, count, case.head_dim),
                  stride=(count * heads * row, row, heads * row, 0))


class TandemGqa:
    """kv_append and gqa; run() appends the new tokens and attends."""

    def __init__(self, library, case, data):
        self.library = library
        self.k_cache, self.v_cache = data.k_cache.copy(), data.v_cache.copy()
        self.out = np.empty_like(data.q)
        new, length = np.array(case.q_lens, np.int32), np.array(case.kv_lens, np.int32)
        self.lengths = new, length - new, length
        self.data = data  # keeps alive what the arguments point to
        self.ctx = library.make("tdm_open", VERSION, c.byref(Options(threads=case.threads)))
        self._make_ops(case)
        self._set_arguments(case)

    def _make_ops(self, case):
        scaling = UNSCALED if case.bits == 32 else PER_CHANNEL if case.per_channel else PER_TENSOR
        side = Tensor(dtype=DTYPE[case.bits], rank=4, scaling=scaling,
                      dim=(case.batch, case.kv_heads, case.kv_len, case.head_dim))
        cache = KvCache(k=side, v=side)
        new = tokens(case, case.kv_heads, case.q_len)
        query = tokens(case, case.q_heads, case.q_len)
        append = KvAppendDesc(k=new, v=new, cache=cache)
        attend = GqaDesc(q=query, out=query, cache=cache, window_left=-1, window_right=0)
        self.append = Op(self.library, "kv_append", self.ctx, append)
        self.attend = Op(self.library, "gqa", self.ctx, attend)

    def _set_arguments(self, case):
        scales = {}
        if case.bits < 32:
            scales = {"k_scale": address(self.data.k_scale), "v_scale": address(self.data.v_scale)}
        cache = KvData(k=address(self.k_cache), v=address(self.v_cache), **scales)
        new_len, pos, kv_len = map(address, self.lengths)
        self.append_args = KvAppendArgs(k=address(self.data.k), v=address(self.data.v), cache=cache, new_len=new_len,
                                        pos=pos)
        self.attend_args = GqaArgs(q=address(self.data.q), cache=cache, q_len=new_len, kv_len=kv_len,
                                   out=address(self.out))

    def run(self):
        self.append.run(self.append_args)
        self.attend.run(self.attend_args)

    def close(self):
        for op in (self.append, self.attend):
            op.close()
        self.library.dll.tdm_close(self.ctx)
