#!/usr/bin/env python3
"""tandem-run with a GPU: logits and greedy tokens against the reference and the CPU's, and what it says without one.

usage: test_pair.py TANDEM_RUN PLUGIN      of a GPU, or of the emulated one of tests/shim
"""
import argparse
import contextlib
import itertools
import os
import re
import sys
import tempfile

from test_model import TEXTS, Suite, spell  # puts the converter on the path, too

import numpy as np

import small_model
from reference import Reference

# Matrices as deep as tensor cores want them, and others; few columns, for an emulated GPU is slow. What bf16 rounds off
# would grow in a second layer to as much as two logits differ by.
LAYERS = {"f32": 2, "f16": 2, "bf16": 1}
TINY = small_model.Sizes(layers=2, hidden=256, ffn=32, heads=4, kv_heads=2, head_dim=24)
SPLIT, WHOLE = ["--device", "cuda"], ["--device", "cuda", "--attention", "cuda"]
CACHES = ["f32", "int8-token", "int4-token"]
GPU_ROWS = {("fp8_matmul", "mma_gemv"), ("fp8_matmul", "warp_gemv"), ("fp8_matmul", "dequant_cublas")}
GPU_ATTENTION = {("kv_append", "cuda_append"), ("gqa", "cuda_flash")}


@contextlib.contextmanager
def environment(**variables):
    os.environ.update(variables)
    yield
    for name in variables:
        del os.environ[name]


def traced(suite, path, args):
    """The logits of a text at each position, and which rows ran: (op, impl)."""
    trace = suite.path("trace")
    with environment(TANDEM_TRACE=trace):
        logits = suite.logits(path, TEXTS[0], *args).reshape(-1, small_model.VOCAB)
    with open(trace) as file:
        next(file)  # the columns' names
        rows = {tuple(line.split(",")[:2]) for line in file}
    os.unlink(trace)
    return logits, rows


def check_rows(suite, what, place, rows):
    """Everything ran where it was told to run."""
    products, attention = ({row for row in rows if (row[0] == "fp8_matmul") == wanted} for wanted in (True, False))
    suite.check(products <= GPU_ROWS if place else products.isdisjoint(GPU_ROWS), f"{what}: products", products)
    on_gpu = attention == GPU_ATTENTION if place == WHOLE else attention.isdisjoint(GPU_ATTENTION)
    suite.check(attention and on_gpu, f"{what}: attention", attention)


def write_models(suite):
    """The paths by the activations that a model is for."""
    paths = {activations: suite.path(f"tiny{layers}.safetensors") for activations, layers in LAYERS.items()}
    for activations, layers in LAYERS.items():
        sizes = TINY._replace(layers=layers)
        small_model.write_safetensors(paths[activations], small_model.make_weights(sizes), sizes=sizes)
    return paths


def check_logits(suite, models):
    """Every type of activations with every kind of cache, on either side, by all kernels of products."""
    tokens = np.array(suite.tokens(models["f32"], TEXTS[0], "--raw"))
    used, clear = set(), 0
    for activations, cache in itertools.product(LAYERS, CACHES):
        path = models[activations]
        want, bound = Reference(path, activations, rounds_weights=True).logits_and_bound(tokens, runs=12, cache=cache)
        name = f"activations {activations}, cache {cache}"
        other = np.abs(np.roll(want, 1, axis=0) - want).max(axis=1)
        suite.check((other > bound).all(), f"{name}: the bound tells one position from the next", bound.max())
        best = np.sort(want, axis=1)
        certain = best[:, -1] - best[:, -2] > bound
        clear += certain.sum()
        for place in ([], SPLIT, WHOLE):
            what = f"{' '.join(place)}, {name}"
            got, rows = traced(suite, path, [*place, "--activations", activations, "--cache", cache])
            check_rows(suite, what, place, rows)
            used |= rows
            cpu = got if not place else cpu
            error = np.maximum(np.abs(got - want), np.abs(got - cpu)).max(axis=1)
            suite.check((error <= bound).all(), f"{what}: logits", f"error {error.max():.3g}, bound {bound.max():.3g}")
            same = got[certain].argmax(axis=1) == cpu[certain].argmax(axis=1)
            suite.check(same.all(), f"{what}: likeliest tokens", same)
        if (activations, cache) == ("f32", "f32"):
            suite.check(bound.max() < 0.005 * want.std() and certain.all(), "the bound can tell", bound.max())
    suite.check(GPU_ROWS | GPU_ATTENTION <= used, "all kernels of the GPU took part", used)
    suite.check(clear > 2 * len(tokens), "positions whose likeliest token is certain", clear)


def certain_tokens(path, tokens, activations, cache, count):
    """The first greedy tokens after a prompt, as long as the two best logits differ by more than the bound."""
    reference, made = Reference(path, activations, rounds_weights=True), []
    while len(made) < count:
        logits, bound = reference.logits_and_bound(np.array(tokens + made), cache=cache)
        second, first = np.sort(logits[-1])[-2:]
        if first - second <= bound[-1]:
            break
        made.append(int(logits[-1].argmax()))
    return made


def check_generation(suite, models):
    """Decoding gives the reference's tokens; the times of all parts are printed and add up."""
    count, prompt = 5, "x"
    for activations, cache in zip(LAYERS, CACHES):
        path = models[activations]
        tokens = certain_tokens(path, suite.tokens(path, prompt, "--raw"), activations, cache, count)
        suite.check(len(tokens) > 2, f"generation, {activations}, {cache}: certain tokens", tokens)
        text = spell(tokens)
        for place in (SPLIT, WHOLE):
            result = suite.run(path, "--raw", "--prompt", prompt, "--max-tokens", count, *place,
                               "--activations", activations, "--cache", cache)  # fmt: skip
            what, report = f"generation, {' '.join(place)}, {activations}, {cache}", result.stderr.decode()
            suite.check(result.returncode == 0 and result.stdout.startswith(text), what, f"{result.stdout} {report}")
            shares = dict(re.findall(r"^([a-z ]*?) +(?:cpu|cuda) +[0-9.]+ s +([0-9.]+) %$", report, re.M))
            names = {"matmuls", "attention", "copies in", "copies out", "the rest"}
            whole = sum(map(float, shares.values()))  # each is rounded to 0.1
            suite.check(shares.keys() == names and abs(whole - 100) < 0.3, f"{what}: times", report)
            suite.check(re.search(r"^weights +cuda +[0-9.]+ MB$", report, re.M), f"{what}: bytes", report)


def check_refusals(suite, path, plugin):
    """Never on the CPU instead, and always with the reason."""
    for what, variables, args, words in (
        ("no plugin", {"TANDEM_CUDA_PLUGIN": "/nonexistent"}, SPLIT, ["--device cuda: ", "/nonexistent"]),
        ("an old GPU", {"SHIM_DEVICES": "75"}, SPLIT, ["compute capability 7.5"]),
        ("no room to stage", {"SHIM_MEMORY": "100000"}, SPLIT, ["staging: ", "TDM_NO_MEMORY"]),
        ("no room for weights", {"SHIM_MEMORY": str((16 << 20) + 100000)}, SPLIT, ["weights: ", "TDM_NO_MEMORY"]),
        ("attention alone", {}, ["--attention", "cuda"], ["--attention cuda", "--device cuda"]),
        ("a device of another kind", {}, ["--device", "tpu"], ["--device: got tpu, want cpu or cuda"]),
    ):
        if any(name.startswith("SHIM_") for name in variables) and "shim" not in os.path.basename(plugin):
            print(f"SKIPPED: {what}: this GPU cannot be made one")
            continue
        with environment(**{"TANDEM_CUDA_PLUGIN": plugin, **variables}):
            result = suite.run(path, "--raw", "--prompt", "the", *args)
        message = result.stderr.decode()
        said = result.returncode == 1 and result.stdout == b"" and all(word in message for word in words)
        suite.check(said, what, f"exit code {result.returncode}, {result.stdout}, {message!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="tandem-run")
    parser.add_argument("plugin", help="the CUDA backend, or that over an emulated GPU")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(args.program, folder)
        models = write_models(suite)
        check_refusals(suite, models["f32"], args.plugin)
        with environment(TANDEM_CUDA_PLUGIN=args.plugin):
            check_logits(suite, models)
            check_generation(suite, models)
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed or not suite.passed else 0


if __name__ == "__main__":
    sys.exit(main())
