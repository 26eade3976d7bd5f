"""A Llama forward pass in numpy float64, and how far f32 arithmetic may be from it.

It shares no code with the runner or the converter: the file is read with struct and json, the formats are
ml_dtypes'. Every operation can be disturbed by its own rounding error (`Disturbed`), so that the distance between a
plain and a disturbed pass shows what such errors grow to at the logits.

A sum of n products in f32 has n roundings, each of a partial sum. Taken as independent, they add up like a random
walk: at most LAMBDA * u * sqrt(n) * (|the sum| + the Euclidean norm of the products), as Higham and Mary show
("A new approach to probabilistic rounding error analysis", 2019) for all but exp(-LAMBDA^2 / 2) of all sums; and no
order of summation has larger partial sums in the mean. The worst case, u * n * sum |products|, is 50 times as
large at these sizes and would hide real faults.
"""
import json
import struct

import ml_dtypes
import numpy as np

from caches import Cache

F32_UNIT = 2.0**-24  # half of the distance from 1 to the next f32
LAMBDA = 6
ACTIVATION_UNITS = {"f32": 0.0, "f16": 2.0**-11, "bf16": 2.0**-8}
DTYPES = {
    "F32": np.float32,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "U8": np.uint8,
}


def read_safetensors(path):
    """All tensors as arrays of their own type, and the metadata."""
    raw = open(path, "rb").read()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = raw[8 + length + begin : 8 + length + end]
        tensors[name] = np.frombuffer(data, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


class Plain:
    """Arithmetic as float64 has it."""

    def __call__(self, value, bound):
        return value

    def rounded(self, value):
        """The result of one operation in f32."""
        return value

    def product(self, a, b):
        """A matrix product in f32."""
        return a @ b


class Disturbed:
    """Every result is off by its bound, up or down at random."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def __call__(self, value, bound):
        return value + bound * self.random.choice([-1.0, 1.0], size=value.shape)

    def rounded(self, value):
        return self(value, F32_UNIT * np.abs(value))

    def product(self, a, b):
        total = a @ b
        error = LAMBDA * F32_UNIT * np.sqrt(len(b) + 3) * (np.abs(total) + np.sqrt(a**2 @ b**2))
        return self(total, error)


class Reference:
    def __init__(self, path, activations="f32", rounds_weights=False):
        """rounds_weights: whether products may round a weight, code times scale, to the type of activations."""
        self.tensors, self.config = read_safetensors(path)
        self.unit = ACTIVATION_UNITS[activations]
        self.weight_unit = self.unit if rounds_weights else 0.0
        self.weights = {}
        self.seen = {}  # each layer's keys and values in the last pass, [tokens, kv_heads, head_dim]
        self.layers = self.number("num_hidden_layers")
        self.heads, self.kv_heads = self.number("num_attention_heads"), self.number("num_key_value_heads")
        self.head_dim = self.number("head_dim")

    def number(self, key):
        return int(self.config[key])

    def matrix(self, name):
        """A weight in float64: each code times the scale of its block."""
        if name not in self.weights:
            codes = self.tensors[name + ".weight"].astype(np.float64)
            scale = self.tensors.get(name + ".weight_scale", self.tensors.get(name + ".weight_scale_inv"))
            block = [int(size) for size in self.config["weight_block_size"].split(",")]
            spread = np.repeat(np.repeat(scale.astype(np.float64), block[0], axis=0), block[1], axis=1)
            self.weights[name] = codes * spread[: codes.shape[0], : codes.shape[1]]
        return self.weights[name]

    def multiply(self, x, name, noise):
        """x W^T, summed in f32; x and the result rounded to the activations' type."""
        x = noise(x, self.unit * np.abs(x))
        weight = self.matrix(name)
        out = noise.product(x, noise(weight, self.weight_unit * np.abs(weight)).T)
        return noise(out, self.unit * np.abs(out))

    def norm(self, x, name, noise):
        """RMSNorm: the factor's rounding and two products."""
        factor = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + float(self.config["rms_norm_eps"]))
        out = x * factor * self.tensors[name + ".weight"].astype(np.float64)
        return noise(out, 4 * F32_UNIT * np.abs(out))

    def rotate(self, x, noise):
        """Rotary embedding of [tokens, heads, head_dim]: two rounded products of a rounded sine, and a sum."""
        half = self.head_dim // 2
        power = np.arange(half) * (-2.0 / self.head_dim)
        angle = np.arange(x.shape[0])[:, None] * float(self.config["rope_theta"]) ** power
        turn = np.exp(1j * angle)[:, None, :]
        if self.config.get("rope_pairing", "half-split") == "interleaved":
            first, second = slice(0, None, 2), slice(1, None, 2)
        else:
            first, second = slice(0, half), slice(half, None)
        turned = (x[..., first] + 1j * x[..., second]) * turn
        out, size = np.empty_like(x), np.empty_like(x)
        out[..., first], out[..., second] = turned.real, turned.imag
        size[..., first] = size[..., second] = np.abs(x[..., first]) + np.abs(x[..., second])
        return noise(out, 4 * F32_UNIT * size)

    def attend(self, q, k, v, noise):
        """Causal softmax attention of [tokens, heads, head_dim]; sums over channels and over keys in f32."""
        tokens, group = q.shape[0], self.heads // self.kv_heads
        out = np.empty_like(q)
        for head in range(self.heads):
            keys, values = k[:, head // group], v[:, head // group]
            scale = self.head_dim**-0.5
            scores = noise.product(q[:, head] * scale, keys.T)
            scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights = noise(weights, 4 * F32_UNIT * weights)
            weights /= weights.sum(axis=1, keepdims=True)
            out[:, head] = noise.product(weights, values)
        return out

    def logits(self, tokens, noise=Plain(), cache="f32", measured=None):
        """[tokens, vocab]. `measured` holds the tensors of a calibration."""
        x = noise.rounded(self.matrix("model.embed_tokens")[tokens])
        for layer in range(self.layers):
            at = f"model.layers.{layer}."
            h = self.norm(x, at + "input_layernorm", noise)
            q, k, v = (self.multiply(h, f"{at}self_attn.{part}_proj", noise) for part in "qkv")
            q, k, v = (part.reshape(len(tokens), -1, self.head_dim) for part in (q, k, v))
            q, k = self.rotate(q, noise), self.rotate(k, noise)
            self.seen[layer] = k, v
            keys, values = self.caches(cache, layer, measured or {})
            attended = self.attend(keys.rotate(q, noise), keys.store(k, noise), values.store(v, noise), noise)
            attended = values.rotate(attended, noise).reshape(len(tokens), -1)
            attended = noise(attended, self.unit * np.abs(attended))
            x = noise.rounded(x + self.multiply(attended, at + "self_attn.o_proj", noise))
            h = self.norm(x, at + "post_attention_layernorm", noise)
            gate, up = (self.multiply(h, f"{at}mlp.{part}_proj", noise) for part in ("gate", "up"))
            gated = gate / (1 + np.exp(-gate)) * up
            gated = noise(gated, 6 * F32_UNIT * np.abs(gated))
            x = noise.rounded(x + self.multiply(gated, at + "mlp.down_proj", noise))
        head = "lm_head" if "lm_head.weight" in self.tensors else "model.embed_tokens"
        return self.multiply(self.norm(x, "model.norm", noise), head, noise)

    def caches(self, schemes, layer, measured):
        """Of the keys and of the values; a single scheme with an offset means that of the keys."""
        k, v = schemes.split("/") if "/" in schemes else (schemes, schemes.replace("+offset", ""))
        here = {name: tensor[layer] for name, tensor in measured.items()}
        return Cache("k", k, self.head_dim, here), Cache("v", v, self.head_dim, here)

    def logits_and_bound(self, tokens, runs=6, **options):
        """The logits and, for each position, how far a correct f32 run may be from any of them.

        The bound is twice the largest deviation of any logit of that position over some disturbed passes: there
        each error has its largest size and a random sign, while a real run has smaller errors whose signs could
        conspire. It follows from the formats and the sizes alone."""
        exact = self.logits(tokens, **options)
        deviations = [np.abs(self.logits(tokens, Disturbed(run), **options) - exact) for run in range(runs)]
        return exact, 2 * np.max(deviations, axis=(0, 2))


def perplexity(logits, tokens):
    peak = logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(logits - peak).sum(axis=1)) + peak[:, 0]
    chosen = logits[np.arange(len(tokens) - 1), tokens[1:]]
    return float(np.exp((log_sum[:-1] - chosen).mean()))
