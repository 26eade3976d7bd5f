"""The inputs of a configuration, made from its seed."""
import numpy as np

SPARE = 32  # rows of the rotary tables beyond the tokens, for position_ids


class Data:
    """Arrays in the operator's shapes; q, k and v are [batch, tokens, heads, head_size] also where they are packed."""

    def __init__(self, config):
        self.config = config
        self.random = np.random.default_rng(config.seed + (1 << 32))
        self.dtype = np.float16 if config.half else np.float32
        self.q = self.normal(config.batch, config.new, config.q_heads, config.head_size)
        self.k_scale, self.v_scale = self._scale(), self._scale()
        self.k, self.v = self._new(self.k_scale), self._new(self.v_scale)
        self.past_key, self.past_value = self._past(), self._past()
        self._rotary()
        self.head_sink = self.normal(config.q_heads) if config.sink else None
        self.bias = self._bias() if config.bias else None

    def normal(self, *shape):
        return self.random.standard_normal(shape, np.float32).astype(self.dtype)

    def _scale(self):
        """Scales that cover three to five standard deviations, so that some values clamp."""
        config = self.config
        if not config.quantized:
            return None
        shape = (1, config.kv_heads, 1, config.head_size) if config.per_channel else (1,)
        return (self.random.uniform(3, 5, shape) / ((1 << config.bits - 1) - 1)).astype(np.float32)

    def _new(self, scale):
        """New keys or values; of a quantized cache's, some lie half way between two codes."""
        config = self.config
        x = self.normal(config.batch, config.new, config.kv_heads, config.head_size)
        if config.quantized:
            step = scale.reshape(x.shape[2:]) if config.per_channel else scale
            half_way = (np.floor(x / step) + 0.5) * step
            x = np.where(self.random.random(x.shape) < 0.1, half_way, x).astype(self.dtype)
        return x

    def _past(self):
        config = self.config
        shape = (config.batch, config.kv_heads, config.past_rows, config.head_size)
        if config.past_rows == 0 and not config.quantized:
            return None
        if not config.quantized:
            return self.normal(*shape)
        limit = 1 << config.bits - 1
        codes = np.clip(np.rint(self.random.standard_normal(shape) * limit / 4), -limit, limit - 1).astype(np.int8)
        return pack(codes) if config.bits == 4 else codes

    def _rotary(self):
        config = self.config
        self.cos = self.sin = self.position_ids = None
        self.positions = np.add.outer(config.pos, np.arange(config.new)).astype(np.int32)
        if not config.rotary:
            return
        rows = config.total + config.new + SPARE
        if config.position_ids:
            if config.phase == "prompt":  # one start for the whole batch
                self.positions = self.random.integers(SPARE) + np.tile(np.arange(config.new), (config.batch, 1))
            else:
                self.positions = self.random.integers(rows, size=(config.batch, config.new))
            self.position_ids = self.positions.astype(np.int64)
            self.positions = self.positions.astype(np.int32)
        angle = np.outer(np.arange(rows), 1e4 ** (-np.arange(0, config.rotary, 2) / config.rotary))
        self.cos, self.sin = np.cos(angle).astype(self.dtype), np.sin(angle).astype(self.dtype)

    def _bias(self):
        """Normal values; masked keys are never those at a query's own position, so that each row sees a key."""
        config = self.config
        bias = self.normal(*config.bias, config.new, config.total)
        if config.bias_masks:
            masked = self.random.random(bias.shape) < 0.4
            for start in config.pos:
                for i in range(min(config.new, config.total - start)):
                    masked[:, :, i, start + i] = False
            bias[masked] = -np.inf
        return bias

    def packed(self):
        """[batch, tokens, q heads then k heads then v heads]."""
        joined = np.concatenate([self.q, self.k, self.v], axis=2)
        return joined.reshape(*joined.shape[:2], -1)


def pack(codes):
    """Codes of -8..7 as nibbles, the even channel in the low one."""
    nibbles = (codes + 8).astype(np.uint8)
    return nibbles[..., 0::2] | nibbles[..., 1::2] << 4


def unpack(packed):
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1).astype(np.int8) - np.int8(8)


def codes_of(config, stored):
    """What cache rows hold, one number a channel."""
    return unpack(stored) if config.bits == 4 else stored


def values_of(config, stored, scale):
    """Cache rows [kv_heads, rows, ...] as exact values."""
    codes = codes_of(config, stored).astype(np.float64)
    if scale is None:
        return codes
    return codes * (scale.astype(np.float64)[0] if config.per_channel else float(scale[0]))
