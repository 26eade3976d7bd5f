"""ONNX Runtime's GroupQueryAttention as a model of one node that runs on buffers of ours."""
import os

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

DISABLE_FLASH = "ORT_GQA_DISABLE_FLASH_ATTENTION"  # read when a session is made
F32, I32 = TensorProto.FLOAT, TensorProto.INT32
CACHE_TYPE = {32: F32, 8: TensorProto.INT8, 4: TensorProto.UINT8}


def gqa_model(case, data):
    """The serialised model: new tokens and a cache in, output and the same cache out."""
    q_size, kv_size = case.q_heads * case.head_dim, case.kv_heads * case.head_dim
    cache_type, cache_shape = CACHE_TYPE[case.bits], data.k_cache.shape
    inputs = {"query": (F32, [1, case.q_len, q_size]), "key": (F32, [1, case.q_len, kv_size]),
              "value": (F32, [1, case.q_len, kv_size]), "past_key": (cache_type, cache_shape),
              "past_value": (cache_type, cache_shape), "seqlens_k": (I32, [1]), "total_sequence_length": (I32, [1])}
    outputs = {"output": (F32, [1, case.q_len, q_size]), "present_key": (cache_type, cache_shape),
               "present_value": (cache_type, cache_shape)}
    operands, attributes = list(inputs), {"num_heads": case.q_heads, "kv_num_heads": case.kv_heads}
    if case.bits < 32:
        kind = "PER_CHANNEL" if case.per_channel else "PER_TENSOR"
        attributes |= {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": case.bits}
        scales = {name: (F32, data.k_scale.shape) for name in ("k_scale", "v_scale")}
        operands += [""] * 5 + list(scales)  # no rotary tables, positions, bias or sink
        inputs |= scales
    node = helper.make_node("GroupQueryAttention", operands, list(outputs), domain="com.microsoft", **attributes)
    infos = [[helper.make_tensor_value_info(name, *info) for name, info in side.items()] for side in (inputs, outputs)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "gqa", *infos), opset_imports=opsets, ir_version=8)
    return model.SerializeToString()


class OrtGqa:
    """A session on one of the operator's two paths; run() appends the new tokens and attends."""

    def __init__(self, case, data, flash):
        self.k_cache, self.v_cache = data.k_cache.copy(), data.v_cache.copy()
        self.out = np.empty_like(data.q)
        self.session = self._session(case, data, flash)
        self.binding = self.session.io_binding()
        length = np.array([case.kv_len], np.int32)
        caches = [onnxruntime.OrtValue.ortvalue_from_numpy(cache) for cache in (self.k_cache, self.v_cache)]
        inputs = {"query": data.q, "key": data.k, "value": data.v, "seqlens_k": length - 1,
                  "total_sequence_length": length}
        if case.bits < 32:
            inputs |= {"k_scale": data.k_scale, "v_scale": data.v_scale}
        for name, array in inputs.items():
            self.binding.bind_cpu_input(name, array)
        for name, cache in zip(("key", "value"), caches):  # one buffer: rows are appended in place
            self.binding.bind_ortvalue_input(f"past_{name}", cache)
            self.binding.bind_ortvalue_output(f"present_{name}", cache)
        self.binding.bind_ortvalue_output("output", onnxruntime.OrtValue.ortvalue_from_numpy(self.out))

    @staticmethod
    def _session(case, data, flash):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = case.threads, 1
        os.environ[DISABLE_FLASH] = "0" if flash else "1"
        try:
            return onnxruntime.InferenceSession(gqa_model(case, data), options, providers=["CPUExecutionProvider"])
        finally:
            del os.environ[DISABLE_FLASH]

    def run(self):
        self.session.run_with_iobinding(self.binding)
