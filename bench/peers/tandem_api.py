"""The part of include/tandem.h that appends to caches and attends, for ctypes."""
import ctypes as c

VERSION = 0 << 16 | 1 << 8 | 0
F32, F16, I8, I4 = 1, 2, 6, 7                 # enum tdm_dtype
UNSCALED, PER_TENSOR, PER_CHANNEL = range(3)  # enum tdm_scaling
BAD_ARG = 1                                   # enum tdm_status
CPU = 0                                       # enum tdm_device_kind


class Sized(c.Structure):
    """A struct that starts with its own size, like TDM_INIT makes."""

    def __init__(self, **fields):
        super().__init__(struct_size=c.sizeof(type(self)), **fields)


class Device(c.Structure):
    _fields_ = [("kind", c.c_int), ("index", c.c_int32)]


class Options(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("threads", c.c_int32), ("host", c.c_void_p), ("allocator", c.c_void_p),
                ("log", c.c_void_p), ("trace", c.c_void_p), ("user", c.c_void_p), ("env", c.POINTER(c.c_char_p))]


class Tensor(c.Structure):
    _fields_ = [("dtype", c.c_int), ("scale_dtype", c.c_int), ("rank", c.c_int32), ("scaling", c.c_int),
                ("dim", c.c_int64 * 4), ("stride", c.c_int64 * 4), ("block", c.c_int64 * 2), ("spare", c.c_int64 * 4)]


class KvCache(c.Structure):
    _fields_ = [("k", Tensor), ("v", Tensor), ("rotate_k", c.c_int32), ("rotate_v", c.c_int32),
                ("has_k_offset", c.c_int32), ("ring", c.c_int32), ("ring_sinks", c.c_int32), ("spare", c.c_int32 * 11)]


class KvData(c.Structure):
    _fields_ = [("k", c.c_void_p), ("v", c.c_void_p), ("k_scale", c.c_void_p), ("v_scale", c.c_void_p),
                ("k_offset", c.c_void_p), ("spare", c.c_void_p * 3)]


class Norm(c.Structure):
    _fields_ = [("dtype", c.c_int), ("epsilon", c.c_float)]


class Rotary(c.Structure):
    _fields_ = [("dtype", c.c_int), ("dim", c.c_int32), ("positions", c.c_int32), ("interleaved", c.c_int32)]


class KvAppendDesc(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("k", Tensor), ("v", Tensor), ("cache", KvCache), ("k_norm", Norm),
                ("rotary", Rotary), ("past", KvCache)]


class KvAppendArgs(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("k", c.c_void_p), ("v", c.c_void_p), ("cache", KvData),
                ("new_len", c.c_void_p), ("pos", c.c_void_p), ("k_norm", c.c_void_p), ("cos", c.c_void_p),
                ("sin", c.c_void_p), ("positions", c.c_void_p), ("past", KvData)]


class GqaDesc(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("q", Tensor), ("out", Tensor), ("cache", KvCache), ("scale", c.c_float),
                ("window_left", c.c_int32), ("window_right", c.c_int32), ("sink_tokens", c.c_int32), ("q_norm", Norm),
                ("rotary", Rotary), ("softcap", c.c_float), ("has_head_sink", c.c_int32),
                ("smooth_softmax", c.c_int32), ("has_alibi", c.c_int32), ("has_tree", c.c_int32), ("bias", Tensor),
                ("mask", Tensor), ("scores", Tensor), ("capture", c.c_int)]


class GqaArgs(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("q", c.c_void_p), ("cache", KvData), ("q_len", c.c_void_p),
                ("kv_len", c.c_void_p), ("out", c.c_void_p), ("lse", c.c_void_p), ("q_norm", c.c_void_p),
                ("cos", c.c_void_p), ("sin", c.c_void_p), ("positions", c.c_void_p), ("bias", c.c_void_p),
                ("mask", c.c_void_p), ("head_sink", c.c_void_p), ("alibi", c.c_void_p), ("tree", c.c_void_p),
                ("scores", c.c_void_p)]


class Failure(RuntimeError):
    """A status that is not TDM_OK, with the library's message."""

    def __init__(self, function, status, message):
        super().__init__(f"{function}: {message}")
        self.status = status


class Library:
    """libtandem.so; a status that is not TDM_OK is raised as Failure."""

    def __init__(self, path):
        self.dll = c.CDLL(path)
        self.dll.tdm_last_error.restype = c.c_char_p
        self.dll.tdm_kv_append_create.argtypes = self.dll.tdm_gqa_create.argtypes = [
            c.c_void_p, Device, c.c_void_p, c.c_void_p]

    def call(self, name, *arguments):
        status = getattr(self.dll, name)(*arguments)
        if status != 0:
            raise Failure(name, status, self.dll.tdm_last_error().decode())

    def make(self, name, *arguments):
        """Call a function whose last parameter receives a handle; return the handle."""
        handle = c.c_void_p()
        self.call(name, *arguments, c.byref(handle))
        return handle


class Op:
    """An op of the CPU with a workspace, for `with`."""

    def __init__(self, library, name, ctx, desc):
        self.library, self.name = library, name
        self.op = library.make(f"tdm_{name}_create", ctx, Device(CPU, 0), c.byref(desc))
        self.workspace = library.make("tdm_workspace_create", self.op, None, c.c_size_t(0))

    def run(self, arguments):
        self.library.call(f"tdm_{self.name}_run", self.op, self.workspace, None, c.byref(arguments))

    def close(self):
        self.library.dll.tdm_workspace_destroy(self.workspace)
        self.library.dll.tdm_op_destroy(self.op)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def address(array, element=0):
    """Where element number `element` of an array lies."""
    return c.c_void_p(array.ctypes.data + element * array.itemsize)
