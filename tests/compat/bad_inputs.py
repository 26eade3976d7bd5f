"""Inputs that the operator rejects, and the same mistakes in Tandem's words: each must be refused by both."""
from dataclasses import replace

import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import peer
from configs import SIMPLE
from data import Data
from ort import OrtRun
from ours import Step
from tandem_api import BAD_ARG, Failure

BIAS, ROTARY, INT8 = {"bias": (1, 1)}, {"rotary": 16, "position_ids": True}, {"cache": "int8-tensor"}
REFUSALS = (RuntimeError, Fail, InvalidArgument, RuntimeException)  # of a run, and of making a session
RING = {"windowed_cache": True, "window": 4, "past_rows": 5, "kv_len": (9, 9), "total": 9}
PADDED = {"phase": "padded", "new": 2, "q_len": (2, 1)}


class Asked:
    """The operator's call: the node's attributes, inputs and outputs."""

    def __init__(self, config, data):
        self.attributes, self.inputs = peer.attributes(config), dict(peer.inputs(config, data))
        self.outputs = peer.outputs(config, data)

    def reshape(self, name, *shape):
        old = self.inputs[name]
        self.inputs[name] = np.zeros(shape, old.dtype)

    def fill(self, name, value):
        self.inputs[name] = np.full_like(self.inputs[name], value)

    def run(self):
        OrtRun(self.attributes, self.inputs, self.outputs).run()


def set_dim(field, index, value):
    """A change of a step's desc: set_dim("gqa_desc.bias", 3, 5)."""
    desc, *path = field.split(".")

    def change(step):
        tensor = getattr(step, desc)
        for name in path:
            tensor = getattr(tensor, name)
        tensor.dim[index] = value
    return change


def set_field(field, value):
    """A change of a member of a step's desc or arguments."""
    *path, last = field.split(".")

    def change(step):
        target = step
        for name in path:
            target = getattr(target, name)
        setattr(target, last, value)
    return change


def set_array(name, value):
    """A change of a number that the arguments point to."""
    def change(step):
        step.inputs.arrays[name].flat[0] = value
    return change


# What is wrong: the configuration, the operator's mistake, Tandem's.
CASES = {
    "query heads not a multiple of kv heads": (
        {"kv_heads": 2}, lambda a: a.attributes.update(num_heads=3), set_dim("gqa_desc.q", 1, 3)),
    "another head size in the past": (
        {}, lambda a: a.reshape("past_key", 2, 1, 8, 24), set_dim("gqa_desc.cache.k", 3, 24)),
    "another batch in the past": (
        {}, lambda a: a.reshape("past_key", 3, 1, 8, 16), set_dim("append_desc.cache.k", 0, 3)),
    "another batch in the keys": ({}, lambda a: a.reshape("key", 3, 1, 16), set_dim("append_desc.k", 0, 3)),
    "other tokens in the keys": ({}, lambda a: (a.reshape("key", 2, 2, 16), a.reshape("value", 2, 2, 16)),
                                 set_dim("append_desc.k", 2, 2)),
    "other kv heads in the past": (
        {}, lambda a: a.reshape("past_key", 2, 3, 8, 16), set_dim("append_desc.cache.k", 1, 3)),
    "values of another size": ({}, lambda a: a.reshape("value", 2, 1, 24), set_dim("append_desc.v", 3, 24)),
    "keys without values": ({}, lambda a: a.inputs.pop("value"), set_field("append_args.v", None)),
    "a past of one side": ({}, lambda a: a.inputs.pop("past_value"), set_field("append_args.cache.v", None)),
    "no key scale": (INT8, lambda a: a.inputs.pop("k_scale"), set_field("append_args.cache.k_scale", None)),
    "no value scale": (INT8, lambda a: a.inputs.pop("v_scale"), set_field("append_args.cache.v_scale", None)),
    "a length below 0": ({}, lambda a: a.fill("seqlens_k", -2), set_array("kv_len", -1)),
    "a length beyond the buffer": ({}, lambda a: a.fill("seqlens_k", 8), set_array("kv_len", 9)),
    "more new tokens than rows left": (
        PADDED, lambda a: (a.fill("seqlens_k", 7), a.fill("total_sequence_length", 8)), set_array("pos", 7)),
    "valid tokens below 0": (PADDED, lambda a: a.fill("query_seqlens", -1), set_array("q_len", -1)),
    "more valid tokens than tokens": (PADDED, lambda a: a.fill("query_seqlens", 3), set_array("q_len", 3)),
    "bias of another batch": (BIAS, lambda a: a.reshape("attention_bias", 3, 1, 1, 6), set_dim("gqa_desc.bias", 0, 3)),
    "bias of other heads": (BIAS, lambda a: a.reshape("attention_bias", 1, 3, 1, 6), set_dim("gqa_desc.bias", 1, 3)),
    "bias of other tokens": (BIAS, lambda a: a.reshape("attention_bias", 1, 1, 2, 6), set_dim("gqa_desc.bias", 2, 2)),
    "bias of fewer keys": (BIAS, lambda a: a.reshape("attention_bias", 1, 1, 1, 5), set_dim("gqa_desc.bias", 3, 5)),
    "a capture that does not exist": (
        {"capture": 1}, lambda a: a.attributes.update(qk_output=3), set_field("gqa_desc.capture", 3)),
    "a capture without an output": (
        {"capture": 1}, lambda a: a.outputs.pop("output_qk"), set_field("gqa_args.scores", None)),
    "rotary without tables": (
        ROTARY, lambda a: (a.inputs.pop("cos_cache"), a.inputs.pop("sin_cache")), set_field("append_args.cos", None)),
    "cosines without sines": (ROTARY, lambda a: a.inputs.pop("sin_cache"), set_field("append_args.sin", None)),
    "more rotary channels than channels": (
        ROTARY, lambda a: (a.reshape("cos_cache", 40, 16), a.reshape("sin_cache", 40, 16)),
        set_field("append_desc.rotary.dim", 32)),
    "a rotary position below 0": (ROTARY, lambda a: a.fill("position_ids", -1), set_array("positions", -1)),
    "a rotary position beyond the tables": (
        ROTARY, lambda a: a.fill("position_ids", 1000), set_array("positions", 1000)),
    "a windowed cache smaller than its window": (
        RING, lambda a: a.attributes.update(local_window_size=6), set_field("gqa_desc.window_left", 5)),
    "a windowed cache without a window": (
        RING, lambda a: a.attributes.pop("local_window_size"), set_field("gqa_desc.window_left", -1)),
}


def complaints(tandem):
    """Which bad inputs a side takes, or refuses as something else."""
    for name, (changes, spoil, mistake) in CASES.items():
        config = replace(SIMPLE, **changes)
        asked, step = Asked(config, Data(config)), Step(config, Data(config))
        spoil(asked)
        mistake(step)
        try:
            asked.run()
            yield f"bad input, {name}: the peer takes it"
        except REFUSALS:
            pass
        try:
            step.run(tandem)
            yield f"bad input, {name}: Tandem takes it"
        except Failure as refused:
            if refused.status != BAD_ARG:
                yield f"bad input, {name}: Tandem reports {refused}"
        if any(array.any() for array in step.made.values()):
            yield f"bad input, {name}: Tandem has written an output"
