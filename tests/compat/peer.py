"""ONNX Runtime's GroupQueryAttention on the CPU: a model of one node, made for its inputs and run once."""
import os

import numpy as np
import onnxruntime
from onnx import helper

DISABLE_FLASH = "ORT_GQA_DISABLE_FLASH_ATTENTION"  # read when a session is made
INPUTS = ("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache",
          "sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight",
          "k_norm_weight", "query_seqlens")
OUTPUTS = ("output", "present_key", "present_value", "output_qk")


def attributes(config):
    """The node's attributes; the optional ones only where they are not at their default."""
    kind = "PER_CHANNEL" if config.per_channel else "PER_TENSOR"
    quantized = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": config.bits}
    optional = {"scale": config.scale, "softcap": config.softcap, "smooth_softmax": int(config.smooth),
                "qk_output": config.capture, "do_rotary": int(config.rotary > 0),
                "rotary_interleaved": int(config.interleaved), "sliding_window_cache": int(config.windowed_cache)}
    return {"num_heads": config.q_heads, "kv_num_heads": config.kv_heads,
            **{name: value for name, value in optional.items() if value},
            **(quantized if config.quantized else {}),
            **({"local_window_size": config.window} if config.window >= 0 else {}),
            **({} if config.causal else {"causal": 0})}


def inputs(config, data):
    """The node's inputs by name, in the operator's order."""
    flat = (config.batch, config.new, -1)
    if config.packed:
        tokens = {"query": data.packed()}
    elif config.shared_kv:
        none = np.empty((config.batch, 0, config.kv_heads * config.head_size), data.dtype)
        tokens = {"query": data.q.reshape(flat), "key": none, "value": none}
    else:
        tokens = {"query": data.q.reshape(flat), "key": data.k.reshape(flat), "value": data.v.reshape(flat)}
    every = {**tokens, "past_key": data.past_key, "past_value": data.past_value,
             "seqlens_k": np.array(config.kv_len, np.int32) - 1,
             "total_sequence_length": np.array([config.total], np.int32),
             "cos_cache": data.cos, "sin_cache": data.sin, "position_ids": data.position_ids,
             "attention_bias": data.bias, "head_sink": data.head_sink, "k_scale": data.k_scale,
             "v_scale": data.v_scale,
             "query_seqlens": np.array(config.q_len, np.int32) if config.phase == "padded" else None}
    return {name: array for name, array in every.items() if array is not None}


def outputs(config, data):
    """The arrays that receive the node's outputs, by name."""
    row = config.head_size // 2 if config.bits == 4 else config.head_size
    present = (config.batch, config.kv_heads, config.rows, row)
    dtype = {4: np.uint8, 8: np.int8}.get(config.bits, data.dtype)
    made = {"output": np.zeros((config.batch, config.new, config.q_heads * config.head_size), data.dtype),
            "present_key": np.zeros(present, dtype), "present_value": np.zeros(present, dtype)}
    if config.capture:
        made["output_qk"] = np.zeros((config.batch, config.q_heads, config.new, config.total), data.dtype)
    return made


def value_info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model(attribute, given, results):
    """The serialised model of one node."""
    operands = [name if name in given else "" for name in INPUTS]
    wanted = [name if name in results else "" for name in OUTPUTS]
    node = helper.make_node("GroupQueryAttention", operands, wanted, domain="com.microsoft", **attribute)
    infos = [[value_info(*item) for item in side.items()] for side in (given, results)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "gqa", *infos)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def make_session(serialised, flash):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    os.environ[DISABLE_FLASH] = "0" if flash else "1"
    try:
        return onnxruntime.InferenceSession(serialised, options, providers=["CPUExecutionProvider"])
    finally:
        del os.environ[DISABLE_FLASH]


def run(attribute, given, results, flash=True, in_place=False):
    """Fill the arrays of `results`. In place: past and present are one buffer."""
    session = make_session(model(attribute, given, results), flash)
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in results.items()}
    for name, array in given.items():
        if in_place and name.startswith("past_"):
            present = name.replace("past", "present")
            results[present][...] = array
            binding.bind_ortvalue_input(name, values[present])
        else:
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for name, value in values.items():
        binding.bind_ortvalue_output(name, value)
    session.run_with_iobinding(binding)


def attend(config, data):
    """What the operator makes of a configuration."""
    made = outputs(config, data)
    run(attributes(config), inputs(config, data), made, config.peer_flash, config.in_place)
    return made
