"""The numbers that both sides of a comparison work on."""
import numpy as np


class Data:
    """Normal keys and values [batch, kv_heads, kv_len, head_dim]; q, and k and v of the new tokens, as
    [batch, q_len, heads * head_dim]; caches as bytes of rows, filled up to the new tokens; scales that cover three to
    five standard deviations, so that some values clamp."""

    def __init__(self, case, seed=0):
        random = np.random.default_rng(seed)
        heads, dim = case.kv_heads, case.head_dim

        def normal(*shape):
            return random.standard_normal(shape, np.float32)

        self.q = normal(case.batch, case.q_len, case.q_heads * dim)
        self.keys, self.values = (normal(case.batch, heads, case.kv_len, dim) for _ in range(2))
        self.k, self.v = (new_tokens(array, case) for array in (self.keys, self.values))
        largest = {32: 1, 8: 127, 4: 7}[case.bits]
        count = heads * dim if case.per_channel else 1
        self.k_scale, self.v_scale = ((random.uniform(3, 5, count) / largest).astype(np.float32) for _ in range(2))
        self.k_cache, self.v_cache = (past_rows(array, scale, case) for array, scale in
                                      ((self.keys, self.k_scale), (self.values, self.v_scale)))

    @staticmethod
    def valid(out, case):
        """The rows of an output that belong to a token."""
        return np.concatenate([out[b, :count] for b, count in enumerate(case.q_lens)])


def new_tokens(array, case):
    """[batch, q_len, heads * head_dim]: each sequence's last tokens, then zeros."""
    tokens = np.zeros((case.batch, case.q_len, case.kv_heads, case.head_dim), np.float32)
    for b, (new, length) in enumerate(zip(case.q_lens, case.kv_lens)):
        tokens[b, :new] = array[b, :, length - new:length].transpose(1, 0, 2)
    return tokens.reshape(case.batch, case.q_len, -1)


def past_rows(array, scale, case):
    """The cache before the new tokens; what is not filled yet is zero."""
    cache = store(array, scale, case) if case.q_len < case.kv_len else store(np.zeros_like(array), scale, case)
    for b, (new, length) in enumerate(zip(case.q_lens, case.kv_lens)):
        cache[b, :, length - new:] = 0
    return cache


def store(values, scale, case):
    """Values [batch, heads, rows, channels] as cache bytes."""
    if case.bits == 32:
        return values.copy()
    scale = scale.reshape(case.kv_heads, 1, case.head_dim) if case.per_channel else scale
    limit = 1 << (case.bits - 1)
    codes = np.clip(np.rint(values / scale), -limit, limit - 1).astype(np.int8)
    if case.bits == 4:
        nibbles = (codes + 8).astype(np.uint8)
        codes = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
    return codes
