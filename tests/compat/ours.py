"""Tandem's kv_append and gqa on the inputs of a configuration."""
import ctypes as c

import numpy as np

from tandem_api import (F16, F32, I4, I8, PER_CHANNEL, PER_TENSOR, UNSCALED, VERSION, GqaArgs, GqaDesc, KvAppendArgs,
                        KvAppendDesc, KvCache, KvData, Library, Op, Options, Rotary, Tensor, address)


class Tandem:
    """Two contexts: one runs what dispatch picks, the other the op's plain statement."""

    def __init__(self, path):
        self.library = Library(path)
        self.flash, self.naive = self._open([]), self._open([b"TANDEM_SKIP=flash"])

    def _open(self, settings):
        env = (c.c_char_p * (len(settings) + 1))(*settings, None)
        return self.library.make("tdm_open", VERSION, c.byref(Options(threads=1, env=env)))

    def op(self, config, name, desc):
        return Op(self.library, name, self.naive if config.tandem_naive else self.flash, desc)

    def close(self):
        for ctx in (self.flash, self.naive):
            self.library.dll.tdm_close(ctx)


def ring_rows(config):
    """Rows of a ring that holds what a step's queries see, and what the operator's windowed cache holds."""
    return max(config.past_rows, config.window - 1 + config.new)


def first_position(config, b):
    """The position of the oldest row that sequence b's cache still has."""
    return max(0, config.kv_len[b] - ring_rows(config)) if config.windowed_cache else 0


def resident_past(config, b):
    """The positions that a windowed past holds; the first prompt has none."""
    tokens = config.pos[b]
    return np.arange(tokens - config.resident(tokens), tokens)


class Buffers:
    """Cache buffers of Tandem's own, filled with the operator's past where it is the same buffer."""

    def __init__(self, config, data):
        self.config = config
        self.copies_past = config.past_rows > 0 and not config.in_place and not config.windowed_cache
        self.k, self.v = (self._buffer(data, past) for past in (data.past_key, data.past_value))

    def _buffer(self, data, past):
        config = self.config
        if config.shared_kv or config.in_place and not config.windowed_cache:
            return past.copy()
        width, dtype = (config.head_size, data.dtype) if past is None else (past.shape[3], past.dtype)
        rows = ring_rows(config) if config.windowed_cache else config.rows
        buffer = np.zeros((config.batch, config.kv_heads, rows, width), dtype)
        if config.windowed_cache:
            for b in range(config.batch):
                positions = resident_past(config, b)
                buffer[b, :, positions % rows] = past[b, :, :len(positions)].swapaxes(0, 1)
        return buffer

    def rows(self, buffer, b):
        """Sequence b's rows [kv_heads, rows, width], from first_position on."""
        positions = np.arange(first_position(self.config, b), self.config.kv_len[b])
        return buffer[b][:, positions % buffer.shape[2]]


def float_type(config):
    return F16 if config.half else F32


def tokens(config, heads):
    """New rows of some heads, by themselves or within a packed projection: [batch, heads, new, head_size]."""
    size = 2 if config.half else 4
    row = config.head_size * size
    token = row * ((config.q_heads + 2 * config.kv_heads) if config.packed else heads)
    return Tensor(dtype=float_type(config), rank=4, dim=(config.batch, heads, config.new, config.head_size),
                  stride=(token * config.new, row, token, 0))


def cache(config, rows, ring=False):
    scaling = PER_CHANNEL if config.per_channel else PER_TENSOR if config.quantized else UNSCALED
    dtype = {4: I4, 8: I8}.get(config.bits, float_type(config))
    side = Tensor(dtype=dtype, rank=4, scaling=scaling, dim=(config.batch, config.kv_heads, rows, config.head_size))
    return KvCache(k=side, v=side, ring=int(ring))


def rotary(config, data):
    if not config.rotary:
        return Rotary()
    return Rotary(dtype=float_type(config), dim=config.rotary, positions=len(data.cos),
                  interleaved=int(config.interleaved))


def append_desc(config, data, buffers):
    new = tokens(config, config.kv_heads)
    past = cache(config, config.past_rows) if buffers.copies_past else KvCache()
    return KvAppendDesc(k=new, v=new, cache=cache(config, buffers.k.shape[2], config.windowed_cache),
                        rotary=rotary(config, data), past=past)


def gqa_desc(config, data, buffers):
    """The operator's attributes, in Tandem's words."""
    def dense(dim):
        return Tensor(dtype=float_type(config), rank=4, dim=dim)

    row = config.head_size * (2 if config.half else 4)
    out = dense((config.batch, config.q_heads, config.new, config.head_size))
    out.stride = (row * config.q_heads * config.new, row, row * config.q_heads, 0)  # heads within tokens
    plane = dense((config.batch, config.q_heads, config.new, config.total))
    return GqaDesc(q=tokens(config, config.q_heads), out=out,
                   cache=cache(config, buffers.k.shape[2], config.windowed_cache), scale=config.scale,
                   window_left=config.window - 1 if config.window >= 0 else -1,
                   window_right=0 if config.causal else -1, rotary=rotary(config, data), softcap=config.softcap,
                   has_head_sink=int(config.sink), smooth_softmax=int(config.smooth),
                   bias=dense(data.bias.shape) if config.bias else Tensor(),
                   scores=plane if config.capture else Tensor(), capture=config.capture)


class Inputs:
    """The arrays that both ops' arguments point to; keep it while they run."""

    def __init__(self, config, data):
        joined, size = data.packed() if config.packed else None, config.head_size
        self.arrays = {name: np.array(value, np.int32) for name, value in (
            ("q_len", config.q_len), ("kv_len", config.kv_len), ("pos", config.pos))}
        self.arrays |= {"q": data.q, "k": data.k, "v": data.v, "joined": joined, "cos": data.cos, "sin": data.sin,
                        "positions": data.positions if config.position_ids else None, "bias": data.bias,
                        "head_sink": data.head_sink.astype(np.float32) if config.sink else None}
        self.pointers = {name: None if array is None else address(array) for name, array in self.arrays.items()}
        if config.packed:
            starts = {"q": 0, "k": config.q_heads * size, "v": (config.q_heads + config.kv_heads) * size}
            self.pointers |= {name: address(joined, start) for name, start in starts.items()}

    def __call__(self, *names):
        return {name: self.pointers[name] for name in names}


def kv_data(data, k, v):
    scales = {}
    if data.k_scale is not None:
        scales = {"k_scale": address(data.k_scale), "v_scale": address(data.v_scale)}
    return KvData(k=address(k), v=address(v), **scales)


class Step:
    """One step of a configuration, ready to run: descs, arguments, and what they point to."""

    def __init__(self, config, data):
        self.config, self.data = config, data
        self.buffers, self.inputs = Buffers(config, data), Inputs(config, data)
        out = (config.batch, config.new, config.q_heads, config.head_size)
        heads = (config.batch, config.q_heads, config.new)
        self.made = {"out": np.zeros(out, data.dtype), "lse": np.zeros(heads, np.float32)}
        if config.capture:
            self.made["scores"] = np.zeros((*heads, config.total), data.dtype)
        self.append_desc = append_desc(config, data, self.buffers)
        self.gqa_desc = gqa_desc(config, data, self.buffers)
        cache_data = kv_data(data, self.buffers.k, self.buffers.v)
        past = kv_data(data, data.past_key, data.past_value) if self.buffers.copies_past else KvData()
        self.append_args = KvAppendArgs(cache=cache_data, new_len=self.inputs.pointers["q_len"], past=past,
                                        **self.inputs("k", "v", "pos", "cos", "sin", "positions"))
        self.gqa_args = GqaArgs(cache=cache_data, **{name: address(array) for name, array in self.made.items()},
                                **self.inputs("q", "q_len", "kv_len", "cos", "sin", "positions", "bias", "head_sink"))

    def run(self, tandem):
        if not self.config.shared_kv:
            with tandem.op(self.config, "kv_append", self.append_desc) as op:
                op.run(self.append_args)
        with tandem.op(self.config, "gqa", self.gqa_desc) as op:
            op.run(self.gqa_args)


def attend(tandem, config, data):
    """The buffers after a step, and arrays by name: out and lse, and scores where they are captured."""
    step = Step(config, data)
    step.run(tandem)
    return step.buffers, step.made
