"""The operator's formula in double precision, and how far a computation in f32 may be from it.

The derivation is that of docs/numerics.md, for both sides: whatever order a side takes its sums in, a product or
sum of n roundings is off by gamma(n), and an exponential by a factor that its argument's error gives. The data of
data.py is of order one, so that nothing but an exponential comes near the smallest f32.
"""
from dataclasses import dataclass

import numpy as np

U = 2.0 ** -24        # of one f32 rounding
EXP = 2.0 ** -22      # of an f32 exponential or hyperbolic tangent: 2 ulp
FLUSHED = 2.0 ** -126  # what an exponential may lose below
LSE_LOG = 2.0 ** -22  # of the logarithm


def gamma(n):
    return n * U / (1 - n * U)


def half_rounding(x):
    """The error of rounding to f16: half a step, or of the smallest one."""
    return np.maximum(2.0 ** -11 * np.abs(x), 2.0 ** -25)


@dataclass(frozen=True)
class Side:
    """What the bound has to know of an implementation."""
    block: int        # keys over which it takes a maximum before it rescales, at least
    rounds_q: bool    # rotated queries pass through the activations' type


TANDEM = Side(block=128, rounds_q=False)
PEER = Side(block=32, rounds_q=True)  # its block follows from the L2 cache: 32 keys of 256 channels in 256 KiB


def rope(config, data, x, positions):
    """Rows [heads, tokens, channels] turned to their positions, and the sum of magnitudes that each value is of."""
    x, turned = x.astype(np.float64), np.abs(x).astype(np.float64)
    if not config.rotary:
        return x, np.zeros_like(x)
    y, half = x.copy(), config.rotary // 2
    first, second = ((slice(0, config.rotary, 2), slice(1, config.rotary, 2)) if config.interleaved
                     else (slice(0, half), slice(half, config.rotary)))
    cos, sin = data.cos[positions].astype(np.float64), data.sin[positions].astype(np.float64)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    a, b = turned[..., first].copy(), turned[..., second].copy()
    turned[..., first] = a * np.abs(cos) + b * np.abs(sin)
    turned[..., second] = b * np.abs(cos) + a * np.abs(sin)
    turned[..., config.rotary:] = 0
    return y, turned


class Attention:
    """One sequence's attention over keys and values [kv_heads, keys, channels], the first at position `first`.
    Arrays are [q_heads, queries, keys or channels]."""

    def __init__(self, config, data, b, keys, values, first):
        self.config, queries = config, config.q_len[b]
        self.q, self.turned = rope(config, data, data.q[b, :queries].swapaxes(0, 1), data.positions[b, :queries])
        self.keys, self.values = (np.repeat(x, config.group, axis=0) for x in (keys, values))
        self.scale = config.scale or 1 / np.sqrt(config.head_size)
        bias, self.visible = self._bias(data, b, queries, first)
        dot = self.q @ self.keys.swapaxes(1, 2)
        self.raw = self.scale * dot
        capped = config.softcap * np.tanh(self.raw / config.softcap) if config.softcap else self.raw
        self.scores = np.where(self.visible, capped + bias, -np.inf)
        self.sink = self._sink(data)
        self.top = np.maximum(self.scores.max(axis=2, keepdims=True, initial=-np.inf), self.sink)
        weight = np.exp(self.scores - self.top)
        self.sum = weight.sum(axis=2, keepdims=True) + np.exp(self.sink - self.top)
        self.probabilities = weight / self.sum
        self.out = self.probabilities @ self.values
        self.lse = (self.top + np.log(self.sum))[..., 0]

    def _bias(self, data, b, queries, first):
        """The bias of visible keys, 0 elsewhere, and which keys are visible."""
        config, keys = self.config, self.keys.shape[1]
        j = first + np.arange(keys)
        position = config.pos[b] + np.arange(queries)[:, None]
        visible = np.ones((config.q_heads, queries, keys), bool)
        if config.causal:
            visible &= j <= position
        if config.window >= 0:
            visible &= j > position - config.window
        if data.bias is None:
            return 0.0, visible
        bias = data.bias[min(b, data.bias.shape[0] - 1), :, :queries, first:first + keys].astype(np.float64)
        visible &= bias > -np.inf
        return np.where(visible, bias, 0), visible

    def _sink(self, data):
        if data.head_sink is not None:
            return data.head_sink.astype(np.float64)[:, None, None]
        return np.full((self.config.q_heads, 1, 1), 0.0 if self.config.smooth else -np.inf)

    def score_error(self, side):
        """How far a score may be off before it is rounded to the output's type."""
        config = self.config
        q_error = gamma(3) * self.turned
        if side.rounds_q and config.half and config.rotary:
            q_error += half_rounding(self.q)
        magnitude = np.abs(self.keys).swapaxes(1, 2)
        error = abs(self.scale) * ((gamma(config.head_size + 4) * np.abs(self.q) + 1.001 * q_error) @ magnitude)
        if config.softcap:  # its slope is at most 1
            error += (EXP + 3 * U) * np.minimum(np.abs(self.raw), config.softcap)
        return error + U * np.abs(np.where(self.visible, self.scores, 0))

    def errors(self, side):
        """Bounds of the scores, probabilities, output and log-sum-exp in f32."""
        keys = self.keys.shape[1]
        score = self.score_error(side)
        most = score.max(axis=2, keepdims=True, initial=0, where=self.visible)
        rescalings = -(-keys // side.block) + 2  # one for each block, one for merged parts, one for the sink
        fixed = (rescalings + 1) * EXP + (rescalings + keys + 4) * U

        def factor(scores, error):
            """The largest change of a weight, as a factor less 1."""
            distance = np.where(np.isfinite(scores), self.top - scores, 0)
            return np.expm1(error + 1.001 * (U * (distance + 2 * most) + fixed))

        rate = factor(self.scores, score)
        lost = self.visible * FLUSHED / self.sum
        moved = rate * self.probabilities + lost
        sink = np.exp(self.sink - self.top) / self.sum
        drift = moved.sum(axis=2, keepdims=True) + factor(self.sink, 0) * sink
        assert drift.max(initial=0) < 0.5, "the bound says nothing"
        probability = (moved + self.probabilities * drift) / (1 - drift)
        output = (moved @ np.abs(self.values) + np.abs(self.out) * drift) / (1 - drift)
        log = np.log1p(np.where(self.visible, rate, 0).max(axis=2, initial=0)) + LSE_LOG * np.abs(
            np.log(self.sum[..., 0])) + U * np.abs(self.lse) + FLUSHED
        return {"scores": score, "probabilities": probability, "out": output, "lse": log}
