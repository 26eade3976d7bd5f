"""OpenVINO's PagedAttention as a model of one node that runs on buffers of ours. Its caches are its own: blocks of 32
tokens, u8 keys scaled by channel and u8 values by token."""
import numpy as np
import openvino
from openvino import PartialShape, Type, opset13
from openvino.op import _PagedAttentionExtension

BLOCK = 32
PRECISION = {32: Type.f32, 8: Type.u8}
LENGTHS = ("past_lens", "subsequence_begins", "block_indices", "block_indices_begins")


def parameter(name, kind, shape):
    node = opset13.parameter(PartialShape(shape), kind, name=name)
    node.output(0).set_names({name})
    return node


def constants(case):
    """Inputs 9 to 27 save max_context_len: no window, no ALiBi, no rotation, no sparsity, no sinks, no tree."""
    f32, i32, u8 = (lambda *value, kind=kind: opset13.constant(np.array(value, kind))
                    for kind in (np.float32, np.int32, np.uint8))
    scalar = opset13.constant
    before = [scalar(np.float32(case.head_dim ** -0.5)), scalar(np.int32(0)), f32()]
    after = [i32(), i32(), i32(), f32(),                                 # scores, rotated blocks
             f32(), scalar(np.int32(128)), scalar(np.int32(16)), f32(),  # sparse prefill, sinks
             scalar(np.int32(0)), i32(), i32(), i32(),                   # eviction
             i32(), u8(), i32()]                                         # token types, bias between queries
    return before, after


def model(case):
    q_width, k_width = case.q_heads * case.head_dim, case.kv_heads * case.head_dim
    inputs = [parameter("query", Type.f32, [-1, q_width]), parameter("key", Type.f32, [-1, k_width]),
              parameter("value", Type.f32, [-1, k_width]),
              *(parameter(name, Type.dynamic, [-1, case.kv_heads, -1, case.head_dim])
                for name in ("key_cache.0", "value_cache.0")),
              *(parameter(name, Type.i32, [-1]) for name in LENGTHS), parameter("max_context_len", Type.i32, [])]
    before, after = constants(case)
    node = _PagedAttentionExtension([node.output(0) for node in inputs[:-1] + before + inputs[-1:] + after])
    for name, value in {"num_k_heads": case.kv_heads, "num_v_heads": case.kv_heads, "k_head_size": case.head_dim,
                        "v_head_size": case.head_dim}.items():
        node.get_rt_info()[name] = value
    return openvino.Model([node.output(0)], inputs, "attention")


class OpenvinoAttention:
    """One of the comparison's cases; run() appends the new tokens and attends."""

    def __init__(self, case, data):
        precision = PRECISION[case.bits]
        settings = {"INFERENCE_PRECISION_HINT": Type.f32, "INFERENCE_NUM_THREADS": case.threads, "NUM_STREAMS": 1,
                    "KV_CACHE_PRECISION": precision}
        compiled = openvino.Core().compile_model(model(case), "CPU", settings)
        self.request = compiled.create_infer_request()
        self.blocks = -(-case.kv_len // BLOCK)
        for name in ("key_cache.0", "value_cache.0"):
            port = compiled.input(name)
            shape = [dim.get_length() if dim.is_static else self.blocks for dim in port.partial_shape]
            self.request.set_tensor(name, openvino.Tensor(port.element_type, shape))
        if case.q_len < case.kv_len:
            self._fill(data.keys[0], data.values[0], case)
        self._set_tokens(data.q[0], data.k[0], data.v[0])
        self._set_lengths([case.kv_len - case.q_len], [0, case.q_len], [0, self.blocks], case.kv_len)

    def run(self):
        self.request.infer()

    def close(self):
        self.request = None

    def _fill(self, keys, values, case):
        """Store all tokens, as sequences of one block each, which saves the attention between them."""
        tokens = [array.transpose(1, 0, 2).reshape(case.kv_len, -1) for array in (keys, values)]
        self._set_tokens(np.zeros((case.kv_len, case.q_heads * case.head_dim), np.float32), *tokens)
        begins = np.minimum(np.arange(self.blocks + 1) * BLOCK, case.kv_len)
        self._set_lengths([0] * self.blocks, begins, range(self.blocks + 1), BLOCK)
        self.request.infer()

    def _set_tokens(self, *arrays):
        for name, array in zip(("query", "key", "value"), arrays):
            self.request.set_tensor(name, openvino.Tensor(np.ascontiguousarray(array)))

    def _set_lengths(self, past, begins, block_begins, longest):
        for name, value in zip(LENGTHS, (past, begins, range(self.blocks), block_begins)):
            self.request.set_tensor(name, openvino.Tensor(np.array(value, np.int32)))
        self.request.set_tensor("max_context_len", openvino.Tensor(np.array(longest, np.int32)))

    @property
    def out(self):
        return self.request.get_output_tensor(0).data[None]
