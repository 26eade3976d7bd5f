#!/usr/bin/env python3
"""Do the kernel tests bite? Make the changes of changes.py to the CUDA sources, one at a time, build them over the shim,
and expect a check to fail. Exit code 1 when a change is not seen.

usage: mutate.py [--quick] CXX TESTS SOURCE_DIR   TESTS: where the tests were built; --quick: only the changes marked so
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from changes import ATTENTION, FP8

FLAGS = ["-std=c++17", "-O1", "-ffp-contract=off", "-D_DEFAULT_SOURCE", "-w", "-fPIC", "-x", "c++"]
# What is built, from the objects that NAME.link lists, and of which kernels.
PROGRAM = "fp8_check", ["fp8_dequant.cu", "fp8_mma_gemv.cu", "fp8_round.cu", "fp8_warp_gemv.cu"]
PLUGIN = "tandem_cuda_shim", ["gqa.cu", "kv_append.cu"]
SECONDS = 300


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, **options)


def must(command, what):
    done = run(command)
    if done.returncode:
        sys.exit(f"{what}:\n{done.stderr[-2000:]}")


def is_seen(wanted, built, arguments):
    """Whether the check of what was built fails, or never ends."""
    command, variables = [built, *arguments.split()], {}
    if built.name == PLUGIN[0]:
        command[0] = wanted.tests / "attention_check"
        variables = {"TEST_DEVICE": "cuda", "TEST_PLUGIN": str(built)}
    try:
        return run(command, timeout=SECONDS, env={**os.environ, **variables}).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def build(wanted, folder, changed, target, kernels):
    """`target` with the sources of `folder`: compile the kernels that include `changed`, take the others as they are."""
    kernels = [changed] if changed in kernels else kernels
    objects = [line for line in (wanted.tests / f"{target}.link").read_text().split()
               if not any(Path(line).name.startswith(kernel) for kernel in kernels)]
    for kernel in kernels:
        objects.append(folder / f"{kernel}.o")
        root = wanted.source_dir
        must([wanted.cxx, *FLAGS, f"-I{folder}", f"-I{root / 'tests/shim'}", f"-I{root}", f"-I{root / 'include'}", "-c",
              folder / kernel, "-o", objects[-1]], f"{kernel} does not compile")
    shared = ["-shared"] if target == PLUGIN[0] else []
    must([wanted.cxx, *shared, "-o", folder / target, *objects, "-ldl", "-lm"], f"{target} does not link")
    return folder / target


def outcome(wanted, source, change, target):
    old, new, arguments, _ = change
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in (wanted.source_dir / "cuda").iterdir():
            if path.suffix in {".cu", ".cuh", ".h"} and path.name != "device.cuh":
                (folder / path.name).write_text(path.read_text())
        text = (folder / source).read_text()
        if text.count(old) != 1:
            sys.exit(f"{source} has {old!r} {text.count(old)} times, want once")
        (folder / source).write_text(text.replace(old, new))
        return is_seen(wanted, build(wanted, folder, source, *target), arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("cxx")
    parser.add_argument("tests", type=Path)
    parser.add_argument("source_dir", type=Path)
    wanted = parser.parse_args()
    results = []
    for target, changes_of in ((PROGRAM, FP8), (PLUGIN, ATTENTION)):
        for source, changes in changes_of.items():
            for change in changes:
                if change[3] or not wanted.quick:
                    results.append(outcome(wanted, source, change, target))
                    print("seen  " if results[-1] else "UNSEEN", f"{source}: {change[0]!r} -> {change[1]!r}", flush=True)
    print(f"{sum(results)} of {len(results)} changes seen")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main())
