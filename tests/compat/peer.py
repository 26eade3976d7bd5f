"""A configuration as ONNX Runtime's GroupQueryAttention takes it."""
import numpy as np

from ort import OrtRun


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


def attend(config, data):
    """What the operator makes of a configuration: arrays by name."""
    made = outputs(config, data)
    OrtRun(attributes(config), inputs(config, data), made, config.peer_flash, config.in_place).run()
    return made
