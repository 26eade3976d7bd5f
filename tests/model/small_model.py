"""A random model, small but awkward: widths that are no multiple of 128, two query heads short of a power of two, heads
of 24 channels (a rotation of 8, groups of 16 and 8), a vocabulary of a few hundred tokens. Written as GGUF, or
as safetensors in every form that the runner reads."""
from typing import NamedTuple

import gguf
import numpy as np
import safetensors.numpy

from convert_model import GLOBAL_TENSORS, LAYER_TENSORS, SCALES, quantize


class Sizes(NamedTuple):
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int


SMALL = Sizes(layers=2, hidden=192, ffn=320, heads=6, kv_heads=2, head_dim=24)
VOCAB = 301
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = (
    "t h|th e|Ġ the|i n|Ġ a|e r|Ġ Ġ|o u|ou t|r e|' s|Ġ t|Ġt h|a n|an d|Ġ and|i s|in g|ĠĠ ĠĠ|l l|' ll|Ċ Ċ|Ð ¿|e n"
).split("|")
SYSTEM = "Be brief."


def spelling():
    """GPT-2's character for each byte."""
    shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    hidden = [b for b in range(256) if b not in shown]
    return {**{b: chr(b) for b in shown}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


def vocabulary():
    """Tokens, their types (3: special) and the merges."""
    tokens = SPECIAL + list(spelling().values()) + [merge.replace(" ", "") for merge in MERGES]
    tokens += [f"<|reserved{i}|>" for i in range(VOCAB - len(tokens))]
    return tokens, [3 if token.startswith("<|") else 1 for token in tokens], MERGES


def make_weights(sizes=SMALL, seed=7):
    """Float tensors by GGUF's name. Rows of different sizes, so that a scale put in the wrong place shows."""
    random = np.random.default_rng(seed)
    q_width, kv_width = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    length = {"vocab": VOCAB, "hidden": sizes.hidden, "ffn": sizes.ffn, "q_width": q_width, "kv_width": kv_width}
    wanted = list(GLOBAL_TENSORS)
    for layer in range(sizes.layers):
        wanted += [(f"blk.{layer}.{a}", f"model.layers.{layer}.{b}", dims) for a, b, dims in LAYER_TENSORS]
    weights = {}
    for name, checkpoint_name, dims in wanted:
        shape = [length[dim] for dim in dims]
        if len(shape) == 1:
            values = random.uniform(0.5, 1.5, shape)
        else:
            rows, columns = (np.exp(random.normal(0, 0.5, n)) for n in shape)
            values = random.normal(0, shape[1] ** -0.5, shape) * rows[:, None] * columns
        weights[name] = (checkpoint_name, values.astype(np.float32))
    weights["token_embd.weight"][1][5, :128] = 0  # a block of zeros
    return weights


def write_gguf(path, weights):
    tokens, types, merges = vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(SMALL.layers)
    writer.add_context_length(256)
    writer.add_embedding_length(SMALL.hidden)
    writer.add_feed_forward_length(SMALL.ffn)
    writer.add_head_count(SMALL.heads)
    writer.add_head_count_kv(SMALL.kv_heads)
    writer.add_key_length(SMALL.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{{ '<|im_start|>system\n" + SYSTEM + "<|im_end|>\n' }}")
    for name, (_, values) in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_safetensors(path, weights, form="row128", scale_dtype=np.float32, pairing="interleaved", sizes=SMALL,
                      **metadata):  # fmt: skip
    tokens, types, merges = vocabulary()
    block, suffix = SCALES[form]
    tensors = {
        "tokenizer.tokens": np.frombuffer("".join(t + "\n" for t in tokens).encode(), np.uint8),
        "tokenizer.merges": np.frombuffer("".join(m + "\n" for m in merges).encode(), np.uint8),
        "tokenizer.token_types": np.array(types, np.uint8),
    }
    for name, values in weights.values():
        if values.ndim == 1:
            tensors[name] = values
        else:
            tensors[name], tensors[name + suffix] = quantize(values, block, scale_dtype)
    config = {
        "architecture": "llama", "num_hidden_layers": sizes.layers, "hidden_size": sizes.hidden,
        "intermediate_size": sizes.ffn, "num_attention_heads": sizes.heads, "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim, "vocab_size": VOCAB,
        "max_position_embeddings": 256, "rope_theta": 10000.0, "rope_pairing": pairing, "rms_norm_eps": 1e-5,
        "bos_token_id": 1, "eos_token_id": 2, "weight_block_size": f"{block[0]},{block[1]}", "pre_tokenizer": "smollm",
        "chat_template": "chatml", "chat_system": SYSTEM, **metadata,
    }  # fmt: skip
    safetensors.numpy.save_file(tensors, path, {key: str(value) for key, value in config.items()})
