"""ONNX Runtime's GroupQueryAttention as a model of one node that runs on buffers of ours."""
import os

import numpy as np
import onnxruntime
from onnx import helper

DISABLE_FLASH = "ORT_GQA_DISABLE_FLASH_ATTENTION"  # read when a session is made
INPUTS = ("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache",
          "sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight",
          "k_norm_weight", "query_seqlens")
OUTPUTS = ("output", "present_key", "present_value", "output_qk")


def value_info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model(attributes, inputs, outputs):
    """The serialised model; inputs and outputs are arrays by the operator's names for them."""
    operands = [name if name in inputs else "" for name in INPUTS]
    results = [name if name in outputs else "" for name in OUTPUTS]
    node = helper.make_node("GroupQueryAttention", operands, results, domain="com.microsoft", **attributes)
    infos = [[value_info(*item) for item in side.items()] for side in (inputs, outputs)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "gqa", *infos)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


class OrtRun:
    """A session on one of the operator's two paths, bound to these arrays. In place: past and present are one
    buffer, which begins as the past."""

    def __init__(self, attributes, inputs, outputs, flash=True, in_place=False, threads=1):
        self.session = self._session(model(attributes, inputs, outputs), flash, threads)
        self.binding = self.session.io_binding()
        self.arrays = inputs, outputs  # what the binding points to
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in outputs.items()}
        for name, array in inputs.items():
            if in_place and name.startswith("past_"):
                present = name.replace("past", "present")
                outputs[present][...] = array
                self.binding.bind_ortvalue_input(name, values[present])
            else:
                self.binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for name, value in values.items():
            self.binding.bind_ortvalue_output(name, value)

    @staticmethod
    def _session(serialised, flash, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4  # failures are raised
        os.environ[DISABLE_FLASH] = "0" if flash else "1"
        try:
            return onnxruntime.InferenceSession(serialised, options, providers=["CPUExecutionProvider"])
        finally:
            del os.environ[DISABLE_FLASH]

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def close(self):
        self.binding = self.session = None


class OrtGqa:
    """One of the comparison's cases; run() appends the new tokens and attends."""

    def __init__(self, case, data, flash):
        self.k_cache, self.v_cache = np.empty_like(data.k_cache), np.empty_like(data.v_cache)
        self.out = np.empty_like(data.q)
        lengths, longest = np.array(case.kv_lens, np.int32), np.array([case.kv_len], np.int32)
        attributes = {"num_heads": case.q_heads, "kv_num_heads": case.kv_heads}
        inputs = {"query": data.q, "key": data.k, "value": data.v, "past_key": data.k_cache,
                  "past_value": data.v_cache, "seqlens_k": lengths - 1, "total_sequence_length": longest}
        if case.bits < 32:
            kind = "PER_CHANNEL" if case.per_channel else "PER_TENSOR"
            attributes |= {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": case.bits}
            inputs |= {"k_scale": data.k_scale, "v_scale": data.v_scale}
        outputs = {"output": self.out, "present_key": self.k_cache, "present_value": self.v_cache}
        session = OrtRun(attributes, inputs, outputs, flash, in_place=True, threads=case.threads)
        self.run, self.close = session.run, session.close
