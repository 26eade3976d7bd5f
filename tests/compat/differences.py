"""Where ONNX Runtime departs from its operator's formula: docs/compatibility.md has a row for each. Tandem must follow
the formula, and the peer must still depart from it, or the row can go."""
from dataclasses import replace

import numpy as np

import ours
import peer
from configs import PROMPT, SIMPLE
from data import Data
from formula import gamma

LOWEST = np.finfo(np.float32).min


def nan_under_static_scale(data):
    data.k[0, 0, 0, 3] = np.nan


def zero_scale(data):
    data.k_scale[:] = 0


def row_without_keys(data):
    data.bias[:] = -np.inf


def row_of_lowest_bias(data):
    data.bias[:] = LOWEST


def nan_outside_window(data):
    data.past_value[:, :, 0] = np.nan


def wide_position_ids(data):
    data.positions = np.array([[1], [2]], np.int32)
    data.position_ids = np.array([[1, 9], [2, 9]], np.int64)  # column 1 belongs to no token


def prompts_that_start_apart(data):
    data.positions = np.array([[0], [20]], np.int32) + np.arange(6, dtype=np.int32)
    data.position_ids = data.positions.astype(np.int64)


def new_key(config, buffers, present):
    return (ours.Buffers.rows(buffers, buffers.k, 0)[0, -1], present["present_key"][0, 0, config.kv_len[0] - 1])


def nan_stores_zero(config, _, buffers, made, present):
    mine, theirs = new_key(config, buffers, present)
    return mine[3] == 0, theirs[3] != 0


def zero_stores_zero(config, _, buffers, made, present):
    mine, theirs = new_key(config, buffers, present)
    return not mine.any(), theirs.any()


def gives_zero(_, __, buffers, made, present):
    return not made["out"].any() and np.isneginf(made["lse"]).all(), np.isnan(present["output"]).any()


def gives_the_mean(config, data, buffers, made, present):
    """The bias absorbs the scores, so that all keys weigh the same."""
    values = buffers.v[0, 0, :config.kv_len[0]].astype(np.float64)
    allowed = gamma(len(values) + 4) * np.abs(values).mean(axis=0)
    return (np.abs(made["out"][0, 0] - values.mean(axis=0)) <= allowed).all(), not present["output"].any()


def hides_nan(_, __, buffers, made, present):
    return np.isfinite(made["out"]).all(), np.isnan(present["output"]).all()


def turns_second_key(config, data, buffers, made, present):
    """The second sequence's new keys, by the exact rotation; the first channel's angle is the position."""
    first, second = data.k[1, :, 0, 0].astype(np.float64), data.k[1, :, 0, config.rotary // 2].astype(np.float64)
    cos, sin = (table[data.positions[1], 0].astype(np.float64) for table in (data.cos, data.sin))
    want = first * cos - second * sin
    allowed = gamma(3) * (np.abs(first * cos) + np.abs(second * sin))
    rows = slice(config.kv_len[1] - config.new, config.kv_len[1])
    mine, theirs = buffers.k[1, 0, rows, 0], present["present_key"][1, 0, rows, 0]
    return (np.abs(mine - want) <= allowed).all(), (np.abs(theirs - want) > allowed).any()


def hidden_scores_are_minus_infinity(config, _, buffers, made, present):
    hidden = np.triu_indices(config.new, 1)
    return np.isneginf(made["scores"][0, 0][hidden]).all(), not present["output_qk"][0, 0][hidden].any()


def padding_is_not_written(config, _, buffers, made, present):
    padding = slice(config.q_len[1], None)
    return not made["out"][1, padding].any() and not buffers.k[1, :, padding].any(), present["output"][1, padding].all()


ROTARY = {"rotary": 16, "position_ids": True}
ALONE = {"batch": 1, "q_len": (1,), "kv_len": (6,)}
DIFFERENCES = {
    "NaN under a static scale": ({"cache": "int8-tensor"}, nan_under_static_scale, nan_stores_zero),
    "scale of 0": ({"cache": "int8-tensor"}, zero_scale, zero_stores_zero),
    "row that sees no key": ({"bias": (1, 1), "peer_flash": False}, row_without_keys, gives_zero),
    "bias of the lowest float": ({**ALONE, "bias": (1, 1)}, row_of_lowest_bias, gives_the_mean),
    "NaN outside the window": ({"window": 2}, nan_outside_window, hides_nan),
    "position_ids wider than the tokens": (ROTARY, wide_position_ids, turns_second_key),
    "position_ids of a first prompt": ({**PROMPT, **ROTARY, "in_place": False, "past_rows": 0},
                                       prompts_that_start_apart, turns_second_key),
    "captured scores of hidden keys": ({**PROMPT, "capture": 1, "in_place": False, "past_rows": 0}, None,
                                       hidden_scores_are_minus_infinity),
    "padding of a prompt": ({**PROMPT, "q_len": (6, 2), "kv_len": (6, 2), "in_place": False, "past_rows": 0}, None,
                            padding_is_not_written),
}


def complaints(tandem):
    """What is wrong with each difference."""
    for name, (changes, spoil, judge) in DIFFERENCES.items():
        config = replace(SIMPLE, **changes)
        data = Data(config)
        if spoil:
            spoil(data)
        present = peer.attend(config, data)
        buffers, made = ours.attend(tandem, config, data)
        follows, departs = judge(config, data, buffers, made, present)
        if not follows:
            yield f"difference, {name}: Tandem does not follow the formula"
        if not departs:
            yield f"difference, {name}: the peer follows the formula, too"
