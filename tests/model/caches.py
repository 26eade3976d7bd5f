"""What a cache makes of keys and values, in float64: offset, Walsh-Hadamard rotation and rounding of every scheme."""
import ml_dtypes
import numpy as np

FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
LEVELS = {"int8": (127, -128), "int4": (7, -8), "fp8": (448, -448)}


def hadamard(size):
    """Orthonormal and symmetric, over blocks of the largest power of two that divides the size."""
    block = np.ones((1, 1))
    while size % (2 * len(block)) == 0:
        block = np.block([[block, block], [block, -block]])
    return np.kron(np.eye(size // len(block)), block) / np.sqrt(len(block))


def measure(keys, values):
    """What a calibration finds in [tokens, kv_heads, head_dim] of a layer, by the names of its file."""
    turn, offset = hadamard(keys.shape[2]), keys.mean(axis=0)
    stored = {
        "k_absmax": keys, "k_absmax+rotate": keys @ turn, "k_absmax+offset": keys - offset,
        "k_absmax+rotate+offset": (keys - offset) @ turn, "v_absmax": values, "v_absmax+rotate": values @ turn,
    }  # fmt: skip
    return {"k_offset": offset, **{name: np.abs(rows).max(axis=0) for name, rows in stored.items()}}


class Cache:
    """Keys or values of one layer. The offset of keys stays subtracted: the softmax does not see it."""

    def __init__(self, side, scheme, head_dim, measured):
        name, *modifiers = scheme.split("+")
        self.kind, _, self.scaling = name.partition("-")
        self.offset = measured["k_offset"] if "offset" in modifiers else None
        self.turn = hadamard(head_dim) if "rotate" in modifiers else None
        self.absmax = measured.get("+".join([f"{side}_absmax", *sorted(modifiers, reverse=True)]))

    def rotate(self, x, noise):
        """Into the stored rows' space, and back: the transform is its own inverse."""
        return x if self.turn is None else noise.product(x, self.turn)

    def store(self, x, noise):
        """What comes back of [tokens, kv_heads, head_dim], still in the stored rows' space."""
        if self.offset is not None:
            x = noise.rounded(x - self.offset)
        return self.round(self.rotate(x, noise))

    def round(self, x):
        if self.kind == "f32":
            return x
        if self.kind in FLOATS:
            return x.astype(FLOATS[self.kind]).astype(np.float64)
        top, bottom = LEVELS[self.kind]
        scale = self.scale(x, top)
        codes = np.clip(np.divide(x, scale, out=np.zeros_like(x), where=scale != 0), bottom, top)
        codes = codes.astype(ml_dtypes.float8_e4m3fn).astype(np.float64) if self.kind == "fp8" else np.rint(codes)
        return codes * scale

    def extreme(self, x, top):
        """What a dynamic scale is `top` times smaller than: INT4 gives the code -8 to the largest, with its sign."""
        if self.kind != "int4":
            return np.abs(x).max(axis=2, keepdims=True)
        first = np.abs(x).argmax(axis=2)[..., None]
        return np.take_along_axis(x, first, axis=2) * (top / -8)

    def scale(self, x, top):
        if self.scaling == "":
            return np.ones_like(x)
        if self.scaling == "channel":
            largest = self.absmax.astype(np.float64)
        elif self.scaling == "tensor":
            largest = np.float64(self.absmax.max())
        else:
            size = int(self.scaling.removeprefix("group")) if self.scaling != "token" else x.shape[2]
            groups = [self.extreme(x[..., at : at + size], top) for at in range(0, x.shape[2], size)]
            largest = np.repeat(np.concatenate(groups, axis=2), size, axis=2)[..., : x.shape[2]]
        return np.broadcast_to(largest / top, x.shape)
