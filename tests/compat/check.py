"""One configuration on both sides: caches byte by byte, results against the formula and each other."""
from dataclasses import dataclass, field

import numpy as np

import ours
import peer
from data import Data, codes_of, values_of
from formula import PEER, TANDEM, Attention, gamma, half_rounding, rope


class Mismatch(Exception):
    """Two things differ by more than they may."""


@dataclass
class Findings:
    """Of one configuration or of many: errors as shares of their bounds, and cache bytes."""
    worst: dict = field(default_factory=dict)  # by type, whom Tandem is compared with, and quantity
    cache_bytes: int = 0
    differing: int = 0
    steps: int = 0  # of the differing bytes, those of quantized caches

    def add(self, other):
        for name, share in other.worst.items():
            self.worst[name] = max(self.worst.get(name, 0.0), share)
        self.cache_bytes += other.cache_bytes
        self.differing += other.differing
        self.steps += other.steps


def key_freedom(config, data, b):
    """How far two roundings of a turned key may be apart: [kv_heads, new tokens, channels]."""
    queries = config.q_len[b]
    exact, turned = rope(config, data, data.k[b, :queries].swapaxes(0, 1), data.positions[b, :queries])
    free = 2 * gamma(3) * turned
    return free + 2 * half_rounding(exact) * (turned > 0) if config.half else free


def check_cache(name, config, data, b, mine, theirs):
    """Equal, but for new keys that were turned: their codes one step apart at most, floats by two roundings."""
    mine, theirs = (codes_of(config, side).astype(np.float64) for side in (mine, theirs))
    allowed, new = np.zeros(mine.shape), min(config.q_len[b], mine.shape[1])
    if name == "key" and config.rotary and new and not config.shared_kv:
        allowed[:, -new:] = 1 if config.quantized else key_freedom(config, data, b)[:, -new:]
    excess = np.abs(mine - theirs) - allowed
    if excess.max(initial=0) > 0:
        at = tuple(int(i) for i in np.unravel_index(np.argmax(excess), excess.shape))
        raise Mismatch(f"present_{name}[{b}] (head, row, channel) {at}: got {mine[at]}, want {theirs[at]} within "
                       f"{allowed[at]:.3g}")


def differing_bytes(one, other):
    one, other = (np.ascontiguousarray(side).view(np.uint8) for side in (one, other))
    return int((one != other).sum())


def compare_caches(config, data, buffers, present, b):
    """What was found, and the keys and values of sequence b on each side (Tandem's where the peer evicted them)."""
    found, sides = Findings(), []
    for name, buffer, scale in (("key", buffers.k, data.k_scale), ("value", buffers.v, data.v_scale)):
        mine = buffers.rows(buffer, b)
        count = config.resident(config.kv_len[b]) if config.windowed_cache else config.kv_len[b]
        theirs = present[f"present_{name}"][b][:, :count]
        kept = mine[:, mine.shape[1] - count:]
        check_cache(name, config, data, b, kept, theirs)
        found.cache_bytes += kept.nbytes
        found.differing += differing_bytes(kept, theirs)
        seen = np.concatenate([mine[:, :mine.shape[1] - count], theirs], axis=1)
        sides.append([values_of(config, rows, scale) for rows in (mine, seen)])
    found.steps = found.differing if config.quantized else 0
    return found, zip(*sides)


def rounded(config, quantity, error, value):
    """With the rounding to the type in which a quantity is given."""
    return error + half_rounding(np.abs(value) + error) if config.half and quantity != "lse" else error


def share(name, got, want, allowed):
    """The largest |got - want| / allowed; infinite or NaN values must agree."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | np.isnan(got) & np.isnan(want)
    with np.errstate(invalid="ignore"):
        shares = np.where(same, 0, np.abs(got - want) / np.maximum(allowed, 1e-300))
    shares = np.where(np.isnan(shares), np.inf, shares)
    if shares.max(initial=0) > 1:
        at = tuple(int(i) for i in np.unravel_index(np.argmax(shares), shares.shape))
        raise Mismatch(f"{name}{list(at)}: got {got[at]:.9g}, want {want[at]:.9g} within {allowed[at]:.3g}")
    return float(shares.max(initial=0))


def comparable(config, b):
    """The queries whose keys the peer's windowed cache still shows: of the others, keys that it turned and stored
    by itself are gone."""
    queries = np.arange(config.q_len[b])
    if not (config.windowed_cache and config.rotary):
        return queries
    oldest = np.maximum(config.pos[b] + queries - config.window + 1, 0)
    return queries[oldest >= config.kv_len[b] - config.resident(config.kv_len[b])]


def results(config, made, present, b):
    """What both sides gave for sequence b, by quantity, as [heads, queries, ...]."""
    queries, keys = config.q_len[b], config.kv_len[b]
    theirs = present["output"].reshape(made["out"].shape)
    pairs = {"out": [side[b, :queries].swapaxes(0, 1) for side in (made["out"], theirs)]}
    if config.capture:
        name = ("scores", "probabilities")[config.capture - 1]
        pairs[name] = [side[b, :, :queries, :keys] for side in (made["scores"], present["output_qk"])]
    return pairs


def check_sequence(config, data, buffers, made, present, b):
    found, caches = compare_caches(config, data, buffers, present, b)
    mine, theirs = (Attention(config, data, b, *cache, ours.first_position(config, b)) for cache in caches)
    my_error, their_error = mine.errors(TANDEM), theirs.errors(PEER)
    lse = made["lse"][b, :, :config.q_len[b]]
    dtype, rows = "f16" if config.half else "f32", comparable(config, b)
    found.worst[dtype, "formula", "lse"] = share(f"lse[{b}] to the formula", lse, mine.lse, my_error["lse"])
    for name, (got, want) in results(config, made, present, b).items():
        exact, other = getattr(mine, name), getattr(theirs, name)
        bound = rounded(config, name, my_error[name], exact)
        found.worst[dtype, "formula", name] = share(f"{name}[{b}] to the formula", got, exact, bound)
        if name == "scores":  # the peer gives 0 where a key is not visible
            want = np.where(mine.visible, want, -np.inf)
        with np.errstate(invalid="ignore"):  # where the caches differ, so do the exact results
            apart = np.where(exact == other, 0, np.abs(exact - other))
        bound = bound + rounded(config, name, their_error[name], other) + apart
        found.worst[dtype, "peer", name] = share(f"{name}[{b}] to the peer", got[:, rows], want[:, rows],
                                                 bound[:, rows])
    return found


def check(tandem, config):
    """Run a configuration; Mismatch where the sides differ by more than the sum of their bounds."""
    data = Data(config)
    present = peer.attend(config, data)
    buffers, made = ours.attend(tandem, config, data)
    found = Findings()
    for b in range(config.batch):
        found.add(check_sequence(config, data, buffers, made, present, b))
    return found
