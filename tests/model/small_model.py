"""A random model, small but awkward: widths that are no multiple of 128, two query heads short of a power of two, heads
of 24 channels (a rotation of 8, groups of 16 and 8), a vocabulary of a few hundred tokens. Written as GGUF, or
as safetensors in every form that the runner reads."""
import gguf
import numpy as np
import safetensors.numpy

from convert_model import GLOBAL_TENSORS, LAYER_TENSORS, SCALES, quantize

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 192, 320, 6, 2, 24, 301
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


def make_weights(seed=7):
    """Float tensors by GGUF's name. Rows of different sizes, so that a scale put in the wrong place shows."""
    random = np.random.default_rng(seed)
    sizes = {"vocab": VOCAB, "hidden": HIDDEN, "ffn": FFN, "q_width": HEADS * HEAD_DIM, "kv_width": KV_HEADS * HEAD_DIM}
    wanted = list(GLOBAL_TENSORS)
    for layer in range(LAYERS):
        wanted += [(f"blk.{layer}.{a}", f"model.layers.{layer}.{b}", dims) for a, b, dims in LAYER_TENSORS]
    weights = {}
    for name, checkpoint_name, dims in wanted:
        shape = [sizes[dim] for dim in dims]
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
    writer.add_block_count(LAYERS)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
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


def write_safetensors(path, weights, form="row128", scale_dtype=np.float32, pairing="interleaved", **metadata):
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
        "architecture": "llama", "num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "intermediate_size": FFN,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCAB,
        "max_position_embeddings": 256, "rope_theta": 10000.0, "rope_pairing": pairing, "rms_norm_eps": 1e-5,
        "bos_token_id": 1, "eos_token_id": 2, "weight_block_size": f"{block[0]},{block[1]}", "pre_tokenizer": "smollm",
        "chat_template": "chatml", "chat_system": SYSTEM, **metadata,
    }  # fmt: skip
    safetensors.numpy.save_file(tensors, path, {key: str(value) for key, value in config.items()})
