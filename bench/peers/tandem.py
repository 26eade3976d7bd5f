"""The part of include/tandem.h that the comparison calls, for ctypes, and Tandem's side of it."""
import ctypes as c

import numpy as np

VERSION = 0 << 16 | 1 << 8 | 0
F32, I8, I4 = 1, 6, 7                     # enum tdm_dtype
UNSCALED, PER_TENSOR, PER_CHANNEL = range(3)  # enum tdm_scaling
DTYPE = {32: F32, 8: I8, 4: I4}


class Sized(c.Structure):
    """A struct that starts with its own size, like TDM_INIT makes."""

    def __init__(self, **fields):
        super().__init__(struct_size=c.sizeof(type(self)), **fields)


class Device(c.Structure):
    _fields_ = [("kind", c.c_int), ("index", c.c_int32)]


class Options(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("threads", c.c_int32), ("host", c.c_void_p), ("allocator", c.c_void_p),
                ("log", c.c_void_p), ("trace", c.c_void_p), ("user", c.c_void_p), ("env", c.c_void_p)]


class Tensor(c.Structure):
    _fields_ = [("dtype", c.c_int), ("scale_dtype", c.c_int), ("rank", c.c_int32), ("scaling", c.c_int),
                ("dim", c.c_int64 * 4), ("stride", c.c_int64 * 4), ("block", c.c_int64 * 2), ("spare", c.c_int64 * 4)]


class KvCache(c.Structure):
    _fields_ = [("k", Tensor), ("v", Tensor), ("spare", c.c_int64 * 8)]


class KvData(c.Structure):
    _fields_ = [("k", c.c_void_p), ("v", c.c_void_p), ("k_scale", c.c_void_p), ("v_scale", c.c_void_p),
                ("spare", c.c_void_p * 4)]


class KvAppendDesc(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("k", Tensor), ("v", Tensor), ("cache", KvCache)]


class KvAppendArgs(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("k", c.c_void_p), ("v", c.c_void_p), ("cache", KvData),
                ("new_len", c.c_void_p), ("pos", c.c_void_p)]


class GqaDesc(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("q", Tensor), ("out", Tensor), ("cache", KvCache), ("scale", c.c_float),
                ("window_left", c.c_int32), ("window_right", c.c_int32)]


class GqaArgs(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("q", c.c_void_p), ("cache", KvData), ("q_len", c.c_void_p),
                ("kv_len", c.c_void_p), ("out", c.c_void_p), ("lse", c.c_void_p)]


class Library:
    """libtandem.so; call() raises the library's message when a status is not TDM_OK."""

    def __init__(self, path):
        self.dll = c.CDLL(path)
        self.dll.tdm_last_error.restype = c.c_char_p
        self.dll.tdm_kv_append_create.argtypes = self.dll.tdm_gqa_create.argtypes = [
            c.c_void_p, Device, c.c_void_p, c.c_void_p]

    def call(self, name, *arguments):
        if getattr(self.dll, name)(*arguments) != 0:
            raise RuntimeError(f"{name}: {self.dll.tdm_last_error().decode()}")

    def make(self, name, *arguments):
        """Call a function whose last parameter receives a handle; return the handle."""
        handle = c.c_void_p()
        self.call(name, *arguments, c.byref(handle))
        return handle


def address(array):
    return array.ctypes.data_as(c.c_void_p)


def tokens(case, heads, count):
    """[1, count, heads * head_dim] floats, seen as [1, heads, count, head_dim]."""
    row = case.head_dim * 4
    return Tensor(dtype=F32, rank=4, dim=(1, heads, count, case.head_dim), stride=(0, row, heads * row, 0))


class TandemGqa:
    """kv_append and gqa; run() appends the new tokens and attends."""

    def __init__(self, library, case, data):
        self.library = library
        self.k_cache, self.v_cache = data.k_cache.copy(), data.v_cache.copy()
        self.out = np.empty_like(data.q)
        self.lengths = [np.array([n], np.int32) for n in (case.q_len, case.kv_len - case.q_len, case.kv_len)]
        self.data = data  # keeps alive what the arguments point to
        self.ctx = library.make("tdm_open", VERSION, c.byref(Options(threads=case.threads)))
        self._make_ops(case)
        self._set_arguments(case)

    def _make_ops(self, case):
        scaling = UNSCALED if case.bits == 32 else PER_CHANNEL if case.per_channel else PER_TENSOR
        side = Tensor(dtype=DTYPE[case.bits], rank=4, scaling=scaling,
                      dim=(1, case.kv_heads, case.kv_len, case.head_dim))
        cache, cpu = KvCache(k=side, v=side), Device(0, 0)
        new = tokens(case, case.kv_heads, case.q_len)
        query = tokens(case, case.q_heads, case.q_len)
        append = KvAppendDesc(k=new, v=new, cache=cache)
        attend = GqaDesc(q=query, out=query, cache=cache, window_left=-1, window_right=0)
        self.append = self.library.make("tdm_kv_append_create", self.ctx, cpu, c.byref(append))
        self.attend = self.library.make("tdm_gqa_create", self.ctx, cpu, c.byref(attend))
        self.workspaces = [self.library.make("tdm_workspace_create", op, None, c.c_size_t(0))
                           for op in (self.append, self.attend)]

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
        call, workspaces = self.library.call, self.workspaces
        call("tdm_kv_append_run", self.append, workspaces[0], None, c.byref(self.append_args))
        call("tdm_gqa_run", self.attend, workspaces[1], None, c.byref(self.attend_args))

    def close(self):
        for workspace in self.workspaces:
            self.library.dll.tdm_workspace_destroy(workspace)
        for op in (self.append, self.attend):
            self.library.dll.tdm_op_destroy(op)
        self.library.dll.tdm_close(self.ctx)
