"""Files that lie. Each case is a name, what makes it from a good file, and what the message must speak of."""
import json
import struct

import numpy as np
from gguf import GGUF_DEFAULT_ALIGNMENT as ALIGNMENT


def rebuild(raw, change):
    """The file with its header's JSON changed by a function."""
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + raw[8 + length :]


def poke(raw, name, value, at=0):
    """The file with bytes of one tensor's data replaced."""
    (length,) = struct.unpack_from("<Q", raw)
    begin = 8 + length + json.loads(raw[8 : 8 + length])[name]["data_offsets"][0] + at
    return raw[:begin] + value + raw[begin + len(value) :]


Q = "model.layers.0.self_attn.q_proj.weight"
NORM = "model.norm.weight"


def setting(name, key, value):
    """A change that sets one entry of a tensor, or of the metadata."""
    return lambda raw: rebuild(raw, lambda header: header[name].__setitem__(key, value))


def metadata(key, value):
    return setting("__metadata__", key, value)


def without(name):
    """A tensor renamed, so that its data is still covered."""
    return lambda raw: rebuild(raw, lambda header: header.__setitem__("unknown", header.pop(name)))


def safetensors_cases(raw):
    (length,) = struct.unpack_from("<Q", raw)
    for size in [*range(10), 8 + length // 2, 8 + length - 1, 8 + length, 8 + length + 1, len(raw) // 2, len(raw) - 1]:
        yield f"cut to {size} bytes", (lambda raw, size=size: raw[:size]), ""
    yield "header length past the end", lambda raw: struct.pack("<Q", len(raw)) + raw[8:], "header length"
    yield "header length of 2^64 - 1", lambda raw: b"\xff" * 8 + raw[8:], "header length"
    yield "header length short by one", lambda raw: struct.pack("<Q", length - 1) + raw[8:], "header"
    yield "header is no JSON", lambda raw: raw[:8] + b"x" * length + raw[8 + length :], "header"
    yield "header is a list", lambda raw: raw[:8] + b"[]".ljust(length) + raw[8 + length :], "header"
    yield "data appended", lambda raw: raw + b"\0", "the last tensor"
    yield "unknown dtype", setting(Q, "dtype", "F8_E4M3FNUZ"), "dtype of " + Q
    yield "dtype a number", setting(Q, "dtype", 3), "dtype of " + Q
    yield "dtype of another size", setting(Q, "dtype", "F32"), "data_offsets of " + Q
    yield "dtype of the same size", setting(Q, "dtype", "F8_E5M2"), "dtype of " + Q
    yield "shape transposed", setting(NORM, "shape", [1, 192]), "shape of " + NORM
    yield "shape too large", setting(Q, "shape", [192, 193]), "data_offsets of " + Q
    yield "shape negative", setting(Q, "shape", [-192, -192]), "shape of " + Q
    yield "shape a fraction", setting(Q, "shape", [0.5, 73728]), "shape of " + Q
    yield "shape that overflows", setting(Q, "shape", [2**40, 2**40]), "shape of " + Q
    yield "shape of nine dimensions", setting(Q, "shape", [1] * 9), "shape of " + Q
    yield "shape no list", setting(Q, "shape", 36864), "shape of " + Q
    yield "offsets swapped", setting(NORM, "data_offsets", [768, 0]), "data_offsets of " + NORM
    yield "offsets past the end", setting(Q, "data_offsets", [2**40, 2**40 + 36864]), "data_offsets of " + Q
    yield "offsets past 2^53", setting(Q, "data_offsets", [0, 2**60]), "data_offsets of " + Q
    yield "offsets not two", setting(Q, "data_offsets", [0]), "data_offsets of " + Q
    yield "tensors overlap", setting(NORM, "data_offsets", [0, 768]), "data_offsets"
    yield "a tensor no object", lambda raw: rebuild(raw, lambda h: h.__setitem__("x", 1)), "dtype of x"
    yield "metadata no object", lambda raw: rebuild(raw, lambda h: h.__setitem__("__metadata__", [])), "__metadata__"
    yield "metadata value a number", metadata("hidden_size", 192), "__metadata__"
    yield "two scale tensors", with_second_scale, "weight_scale_inv"
    yield "weight missing", without(Q), Q
    yield "scale missing", without(Q + "_scale"), Q + "_scale"
    yield "norm missing", without(NORM), NORM
    yield "tokens missing", without("tokenizer.tokens"), "tokenizer.tokens"
    for key in ("num_hidden_layers", "hidden_size", "head_dim", "vocab_size", "rope_theta", "pre_tokenizer"):
        yield f"{key} missing", lambda raw, key=key: rebuild(raw, lambda h: h["__metadata__"].pop(key)), key
    for key, value in [
        ("num_hidden_layers", "3"), ("num_hidden_layers", "1x"), ("num_hidden_layers", "99999999999999999999"),
        ("hidden_size", "0"), ("hidden_size", "-192"), ("hidden_size", "128"), ("intermediate_size", "321"),
        ("num_attention_heads", "5"), ("num_key_value_heads", "4"), ("head_dim", "31"), ("head_dim", "1e1"),
        ("vocab_size", "300"), ("rope_theta", "nan"), ("rope_theta", "-1"), ("rms_norm_eps", "0"),
        ("bos_token_id", "301"), ("eos_token_id", "-1"), ("rope_pairing", "neither"), ("chat_template", "other"),
        ("weight_block_size", "128"), ("weight_block_size", "0,128"), ("weight_block_size", "1,64"),
        ("weight_block_size", "1,128,1"), ("pre_tokenizer", "other"),
    ]:  # fmt: skip
        yield f"{key} = {value}", metadata(key, value), ""
    yield "NaN weight", lambda raw: poke(raw, Q, b"\x7f", 100), Q
    yield "negative NaN weight", lambda raw: poke(raw, Q, b"\xff", 27647), Q
    yield "NaN norm", lambda raw: poke(raw, NORM, struct.pack("<f", float("nan"))), NORM
    yield "token of no byte", lambda raw: poke(raw, "tokenizer.tokens", "界".encode(), 42), "tokenizer.tokens"
    yield "token lines joined", lambda raw: raw.replace(b"!\n\"\n#\n", b"!a\"\n#\n"), "tokenizer.tokens"
    yield "two equal tokens", lambda raw: raw.replace(b"\n#\n$\n", b"\n#\n#\n"), "tokenizer.tokens"
    yield "merge without a space", lambda raw: poke(raw, "tokenizer.merges", b"tth"), "tokenizer.merges"
    yield "merge of unknown tokens", lambda raw: poke(raw, "tokenizer.merges", b"z z"), "tokenizer.merges"
    yield "last merge cut", lambda raw: raw.replace(b"e n\n", b"e nn"), "tokenizer.merges"


def scale_cases(dtype):
    """A scale that is no number, in the file's type of scales."""
    for what in ("nan", "inf") if np.dtype(dtype).itemsize > 1 else ("nan",):
        value = np.array(what, np.float32).astype(dtype).tobytes()
        yield f"{np.dtype(dtype).name} scale {what}", lambda raw, v=value: poke(raw, Q + "_scale", v, 2 * len(v)), Q


def with_second_scale(raw):
    def change(header):
        header[Q + "_scale_inv"] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}

    return rebuild(raw, change)


def at(raw, marker, skip, value):
    """The file with the bytes after a marker replaced."""
    begin = raw.index(marker) + len(marker) + skip
    return raw[:begin] + value + raw[begin + len(value) :]


def gguf_cases(raw):
    for size in [*range(0, 30, 3), *range(30, len(raw), len(raw) // 25), len(raw) - 33]:
        yield f"cut to {size} bytes", (lambda raw, size=size: raw[:size]), ""
    huge, name = struct.pack("<Q", 2**63), b"blk.0.attn_q.weight"
    yield "another magic", lambda raw: b"GGML" + raw[4:], "magic"
    yield "version 9", lambda raw: at(raw, b"GGUF", 0, struct.pack("<I", 9)), "version"
    yield "too many tensors", lambda raw: at(raw, b"GGUF", 4, struct.pack("<Q", 2**40)), ""
    yield "too many fields", lambda raw: at(raw, b"GGUF", 12, huge), ""
    yield "key length", lambda raw: at(raw, b"GGUF", 20, huge), "key of field 0"
    yield "unknown value type", lambda raw: at(raw, b"general.architecture", 0, struct.pack("<I", 77)), "general.arch"
    yield "string length", lambda raw: at(raw, b"general.architecture", 4, huge), "general.architecture"
    yield "another architecture", lambda raw: raw.replace(b"llama", b"lemma"), "general.architecture"
    yield "array length", lambda raw: at(raw, b"tokenizer.ggml.token_type", 8, huge), "tokenizer.ggml.token_type"
    yield "tokens not UTF-8", lambda raw: raw.replace(b"<|im_start|>", b"<|im_\xff\xfe\xfd\xfct|>", 1), "tokenizer"
    yield "a layer too many", lambda raw: at(raw, b"llama.block_count", 4, struct.pack("<I", 3)), "blk.2.attn_norm"
    yield "4 billion layers", lambda raw: at(raw, b"llama.block_count", 4, b"\xff" * 4), "blk.2.attn_norm"
    yield "a layer too few", lambda raw: at(raw, b"llama.block_count", 4, struct.pack("<I", 1)), "no such tensor"
    yield "no heads", lambda raw: at(raw, b"llama.attention.head_count", 4, bytes(4)), "head_count"
    yield "another width", lambda raw: at(raw, b"llama.embedding_length", 4, struct.pack("<I", 96)), "shape of"
    yield "rank 0", lambda raw: at(raw, name, 0, struct.pack("<I", 0)), "rank of blk.0.attn_q"
    yield "rank 99", lambda raw: at(raw, name, 0, struct.pack("<I", 99)), "rank of blk.0.attn_q"
    yield "shape transposed", lambda raw: at(raw, b"blk.0.attn_k.weight", 4, struct.pack("<QQ", 64, 192)), "shape of"
    yield "huge shape", lambda raw: at(raw, name, 4, huge * 2), "data of blk.0.attn_q"
    yield "empty shape", lambda raw: at(raw, name, 4, bytes(8)), "shape of blk.0.attn_q"
    yield "unknown tensor type", lambda raw: at(raw, name, 20, struct.pack("<I", 777)), "type of blk.0.attn_q"
    yield "type with larger blocks", lambda raw: at(raw, name, 20, struct.pack("<I", 14)), "shape of blk.0.attn_q"
    yield "offset past the end", lambda raw: at(raw, name, 24, huge), "data of blk.0.attn_q"
    yield "tensor renamed", lambda raw: raw.replace(b"blk.0.ffn_up.weight", b"blk.0.ffn_uq.weight"), "blk.0.ffn_up"
    yield "two tensors of a name", lambda raw: raw.replace(b"blk.0.ffn_norm.we", b"blk.0.attn_norm.w"), ""
    yield "infinite weight", put_infinity, "blk.0.attn_q.weight"


def put_infinity(raw):
    """The first weight of a matrix: its offset counts from the end of the header, aligned."""
    at_info = raw.index(b"blk.0.attn_q.weight") + len(b"blk.0.attn_q.weight") + 24
    (offset,) = struct.unpack_from("<Q", raw, at_info)
    last = raw.rindex(b".weight") + len(b".weight") + 4
    (rank,) = struct.unpack_from("<I", raw, last - 4)
    end_of_header = last + 8 * rank + 4 + 8
    start = -(-end_of_header // ALIGNMENT) * ALIGNMENT + offset
    return raw[:start] + struct.pack("<f", float("inf")) + raw[start + 4 :]
