"""ggml's flash attention as a graph of one node, called in the libraries that llama-cpp-python brings along."""
import ctypes as c
import importlib.util
from pathlib import Path

import numpy as np

F32, F16 = 0, 1                  # enum ggml_type
QUANTIZED = {4: 2, 8: 8}         # q4_0 and q8_0: blocks of 32 channels with an f16 scale
CONTEXT_BYTES = 1 << 20          # of tensor descriptions


class InitParams(c.Structure):
    _fields_ = [("mem_size", c.c_size_t), ("mem_buffer", c.c_void_p), ("no_alloc", c.c_bool)]


class Plan(c.Structure):
    _fields_ = [("work_size", c.c_size_t), ("work_data", c.c_void_p), ("threads", c.c_int), ("pool", c.c_void_p),
                ("abort", c.c_void_p), ("abort_data", c.c_void_p), ("use_ref", c.c_bool)]


SIGNATURES = {
    "ggml_init": (c.c_void_p, InitParams),
    "ggml_free": (None, c.c_void_p),
    "ggml_new_tensor_4d": (c.c_void_p, c.c_void_p, c.c_int, *[c.c_int64] * 4),
    "ggml_flash_attn_ext": (c.c_void_p, *[c.c_void_p] * 5, *[c.c_float] * 3),
    "ggml_new_graph": (c.c_void_p, c.c_void_p),
    "ggml_build_forward_expand": (None, c.c_void_p, c.c_void_p),
    "ggml_graph_plan": (Plan, c.c_void_p, c.c_int, c.c_void_p),
    "ggml_graph_compute": (c.c_int, c.c_void_p, c.POINTER(Plan)),
    "ggml_quantize_chunk": (c.c_size_t, c.c_int, c.c_void_p, c.c_void_p, *[c.c_int64] * 3, c.c_void_p),
    "ggml_row_size": (c.c_size_t, c.c_int, c.c_int64),
    "ggml_get_data": (c.c_void_p, c.c_void_p),
}


def load():
    """The functions of SIGNATURES, looked for in both libraries."""
    folder = Path(importlib.util.find_spec("llama_cpp").origin).parent / "lib"
    libraries = [c.CDLL(str(folder / name), c.RTLD_GLOBAL) for name in ("libggml-base.so", "libggml-cpu.so")]
    functions = {}
    for name, (result, *arguments) in SIGNATURES.items():
        function = next(getattr(library, name) for library in libraries if hasattr(library, name))
        function.restype, function.argtypes = result, arguments
        functions[name.removeprefix("ggml_")] = function
    return functions


class GgmlAttention:
    """One of the comparison's cases; run() attends. The new tokens are in the cache already."""

    def __init__(self, case, data):
        self.call = load()
        self.arrays, inputs = [], self._inputs(case, data)
        room = CONTEXT_BYTES + sum(array.nbytes + 64 for array, *_ in inputs) + 2 * data.q.nbytes
        self.context = self.call["init"](InitParams(room, None, False))
        tensors = [self._tensor(*item) for item in inputs] + [None] * (4 - len(inputs))
        result = self.call["flash_attn_ext"](self.context, *tensors, case.head_dim ** -0.5, 0, 0)
        self.graph = self.call["new_graph"](self.context)
        self.call["build_forward_expand"](self.graph, result)
        self.plan = self.call["graph_plan"](self.graph, case.threads, None)
        self.work = np.empty(self.plan.work_size, np.uint8)
        self.plan.work_data = self.work.ctypes.data
        pointer = c.cast(self.call["get_data"](result), c.POINTER(c.c_float))
        self.out = np.ctypeslib.as_array(pointer, data.q.shape)

    def _inputs(self, case, data):
        """Query, keys, values and, for several queries, the causal mask: bytes, type, sizes from the inside out."""
        dim, new, count = case.head_dim, case.q_len, case.kv_len
        query = np.ascontiguousarray(data.q[0].reshape(new, case.q_heads, dim).transpose(1, 0, 2))
        inputs = [(query, F32, (dim, new, case.q_heads, 1))]
        inputs += [(self._quantized(array, QUANTIZED[case.bits], dim), QUANTIZED[case.bits],
                    (dim, count, case.kv_heads, 1)) for array in (data.keys[0], data.values[0])]
        if new > 1:
            hidden = np.arange(count) > np.arange(count - new, count)[:, None]
            inputs.append((np.where(hidden, np.float16(-np.inf), np.float16(0)), F16, (count, new, 1, 1)))
        return inputs

    def _quantized(self, array, kind, dim):
        rows = array.size // dim
        stored = np.empty(rows * self.call["row_size"](kind, dim), np.uint8)
        self.call["quantize_chunk"](kind, array.ctypes.data, stored.ctypes.data, 0, rows, dim, None)
        return stored

    def _tensor(self, array, kind, sizes):
        tensor = self.call["new_tensor_4d"](self.context, kind, *sizes)
        c.memmove(self.call["get_data"](tensor), array.ctypes.data, array.nbytes)
        return tensor

    def run(self):
        if self.call["graph_compute"](self.graph, c.byref(self.plan)) != 0:
            raise RuntimeError("ggml_graph_compute failed")

    def close(self):
        self.call["free"](self.context)
