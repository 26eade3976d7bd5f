"""The cases that peers are compared on, and their data."""
from dataclasses import dataclass

import numpy as np

BITS = {"f32": 32, "int8-tensor": 8, "int8-channel": 8, "int4-channel": 4}
REQUIRED = {"decode": 1.5, "prefill": 4.0}  # how many times faster than the peer, where a case demands it


@dataclass(frozen=True)
class Case:
    phase: str  # decode: one new token after kv_len - 1 others; prefill: kv_len new tokens
    cache: str
    kv_len: int
    threads: int
    q_heads: int = 16
    kv_heads: int = 8
    head_dim: int = 128

    @property
    def name(self):
        return f"{self.phase} {self.q_heads}/{self.kv_heads} {self.cache} T={self.kv_len} threads={self.threads}"

    @property
    def q_len(self):
        return 1 if self.phase == "decode" else self.kv_len

    @property
    def bits(self):
        return BITS[self.cache]

    @property
    def per_channel(self):
        return self.cache.endswith("-channel")

    @property
    def required(self):
        """The ratio that this case has to reach, or None."""
        demanded = self.cache == "int8-tensor" and self.kv_len == 2048 and self.threads == 1
        return REQUIRED[self.phase] if demanded else None


def all_cases(threads):
    lengths = {"decode": (512, 2048, 8192), "prefill": (512, 1024, 2048)}
    return [Case(phase, cache, kv_len, count) for count in threads for phase in lengths for cache in BITS
            for kv_len in lengths[phase]]


class Data:
    """Normal q, k and v as [1, tokens, heads * head_dim]; caches [1, kv_heads, kv_len, row] filled up to the
    new tokens; scales that cover three to five standard deviations, so that some values clamp."""

    def __init__(self, case, seed=0):
        random = np.random.default_rng(seed)
        new, heads, dim = case.q_len, case.kv_heads, case.head_dim

        def normal(*shape):
            return random.standard_normal(shape, np.float32)

        self.q = normal(1, new, case.q_heads * dim)
        self.k, self.v = normal(1, new, heads * dim), normal(1, new, heads * dim)
        largest = {32: None, 8: 127, 4: 7}[case.bits]
        count = heads * dim if case.per_channel else 1
        self.k_scale, self.v_scale = ((random.uniform(3, 5, count) / (largest or 1)).astype(np.float32)
                                      for _ in range(2))
        self.k_cache, self.v_cache = (store(normal(heads, case.kv_len, dim), scale, case)
                                      for scale in (self.k_scale, self.v_scale))
        for cache in (self.k_cache, self.v_cache):
            cache[:, :, case.kv_len - new:] = 0


def store(values, scale, case):
    """Values [heads, rows, channels] as cache bytes."""
    if case.bits == 32:
        return values[None].copy()
    scale = scale.reshape(case.kv_heads, 1, case.head_dim) if case.per_channel else scale
    limit = 1 << (case.bits - 1)
    codes = np.clip(np.rint(values / scale), -limit, limit - 1).astype(np.int8)
    if case.bits == 4:
        nibbles = (codes + 8).astype(np.uint8)
        codes = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
    return codes[None]
