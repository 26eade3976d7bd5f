#!/usr/bin/env python3
"""Do the kernel tests bite? Make one change at a time to the CUDA sources, build them over the shim, and expect fp8_check
to fail. Exit code 1 when a change is not seen.

usage: mutate.py [--quick] CXX LINK_FILE SOURCE_DIR   --quick: only the changes marked so
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = ["-std=c++17", "-O1", "-ffp-contract=off", "-D_DEFAULT_SOURCE", "-w", "-fPIC", "-x", "c++"]
KERNELS = ["fp8_dequant.cu", "fp8_mma_gemv.cu", "fp8_round.cu", "fp8_warp_gemv.cu"]
SECONDS = 300

# source: (what stands there, what to put in its place, the groups of fp8_check that must see it, whether it is quick)
CHANGES = {
    "fp8_mma_gemv.cu": [
        ("a[i][1] = pair_of_e4m3<T>(lower & 0xffffu)", "a[i][1] = pair_of_e4m3<T>(upper & 0xffffu)", "one_weight", True),
        ("a[i][2] = pair_of_e4m3<T>(upper >> 16)", "a[i][2] = pair_of_e4m3<T>(upper & 0xffffu)", "one_weight codes", False),
        ("lower = word(codes[1], i)", "lower = word(codes[0], i)", "one_weight", False),
        ("(p.b.codes + n * p.b.stride) + t", "(p.b.codes + n * p.b.stride) + (t ^ 1)", "one_weight codes", False),
        ("{x[2 * i], x[2 * i + 1]}", "{x[2 * i + 1], x[2 * i]}", "codes", False),
        ("    __syncthreads();\n    for (int i = static_cast<int>(threadIdx.x); i < ROWS", "    for (int i = static_cast<int>(threadIdx.x); i < ROWS",
         "one_weight", True),
        ("    }\n    __syncthreads();\n}", "    }\n}", "rows", False),
        ("i % 2 ? unit.y : unit.x", "i % 2 ? unit.x : unit.y", "rows", False),
        ("scale[panel][i / 2]", "scale[panel][i % 2]", "one_weight", False),
        ("narrow<T>(total + bias_at<T>(p.bias, n))", "narrow<T>(total)", "odd_activations", False),
        ("n >= p.b.n ||", "n > p.b.n ||", "rows", False),
        ("/ windows_of_block)", "/ (windows_of_block + 1))", "one_weight", True),
        ("end = all * (warp + 1) / warps;", "end = all * (warp + 1) / warps - 1;", "one_weight", False),
        ("+ (w + u) * 4)", "+ w * 4)", "rows", False),
        ("activations + row * stride +", "activations + row * 0 +", "one_weight", False),
        ("|| c->round != p->round", "", "ties odd_activations", False),
    ],
    "fp8_warp_gemv.cu": [
        ("c += LOADS * WARP", "c += WARP", "one_hot", False),
        ("step = WARP / 2; step", "step = WARP / 4; step", "one_hot", False),
        ("static_cast<int64_t>(blockIdx.y) * ROWS", "static_cast<int64_t>(blockIdx.y)", "rows", False),
        ("/ chunks_of_block)", "/ (chunks_of_block + 1))", "one_weight", True),
        ("d * a_scale[r]", "d", "scales", False),
        ("<< i % 4 * 8", "<< i % 4 * 4", "one_weight", False),
        ("first + r < p.m", "first + r <= p.m", "rows", False),
    ],
    "fp8_round.cu": [
        ("        of_warp[warp] = largest;\n    __syncthreads();", "        of_warp[warp] = largest;", "scales_of_rows", False),
        ("== INFINITY ? 0.f : scale", "== INFINITY ? scale : scale", "scales_of_rows", True),
        ("LARGEST_CODE = 448", "LARGEST_CODE = 447", "scales_of_rows", False),
        ("__shfl_xor_sync(ALL_LANES, largest, step)", "__shfl_xor_sync(ALL_LANES, largest, 1)", "scales_of_rows", False),
    ],
    "fp8_dequant.cu": [
        ("dtype == TDM_F16 ? 7 : 0", "dtype == TDM_F16 ? 8 : 0", "scales codes", False),
        ("sum * first * unit * second", "sum * first * unit", "scales", False),
        ("+ block), -exponent);\n        float x[FP8_CHUNK];", "+ block), exponent);\n        float x[FP8_CHUNK];", "scales", False),
        ("[row * p.b.k + k] = narrow<T>", "[row * p.b.k] = narrow<T>", "blocks", False),
        ("MOST_GRID_Y = 65535", "MOST_GRID_Y = 100000", "many_columns", False),
        ("exponent_of(largest) + 1 -", "exponent_of(largest) -", "scales codes", False),
    ],
    "fp8_math.cuh": [
        ("scale == 0 ? 0 : e4m3_of_f32", "e4m3_of_f32", "given_scales", False),
        ("bits << 23 : 0x00400000u", "bits << 23 : 0u", "smallest_scale", False),
        ("bits == 0xff", "bits == 0xfe", "odd_scales", False),
        ("n / static_cast<uint32_t>(b.block_n)", "n", "one_weight", False),
    ],
}


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, **options)


def is_seen(program, groups):
    try:
        return run([program, *groups.split()], timeout=SECONDS).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def build(wanted, folder, changed):
    """fp8_check with the sources of `folder`: compile the kernels that include `changed`, take the others as they are."""
    kernels = [changed] if changed in KERNELS else KERNELS
    objects = [line for line in wanted.link_file.read_text().split()
               if not any(Path(line).name.startswith(kernel) for kernel in kernels)]
    for kernel in kernels:
        target = folder / f"{kernel}.o"
        root = wanted.source_dir
        done = run([wanted.cxx, *FLAGS, f"-I{folder}", f"-I{root / 'tests/shim'}", f"-I{root}", f"-I{root / 'include'}",
                    "-c", folder / kernel, "-o", target])
        if done.returncode:
            sys.exit(f"{kernel} does not compile:\n{done.stderr[-2000:]}")
        objects.append(target)
    program = folder / "fp8_check"
    done = run([wanted.cxx, "-o", program, *objects, "-ldl", "-lm"])
    if done.returncode:
        sys.exit(f"{kernel} does not link:\n{done.stderr[-2000:]}")
    return program


def outcome(wanted, source, old, new, groups):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in (wanted.source_dir / "cuda").iterdir():
            if path.suffix in {".cu", ".cuh", ".h"} and path.name != "device.cuh":
                (folder / path.name).write_text(path.read_text())
        text = (folder / source).read_text()
        if text.count(old) != 1:
            sys.exit(f"{source} has {old!r} {text.count(old)} times, want once")
        (folder / source).write_text(text.replace(old, new))
        return is_seen(build(wanted, folder, source), groups)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("cxx")
    parser.add_argument("link_file", type=Path)
    parser.add_argument("source_dir", type=Path)
    wanted = parser.parse_args()
    results = []
    for source, changes in CHANGES.items():
        for old, new, groups, quick in changes:
            if quick or not wanted.quick:
                results.append(outcome(wanted, source, old, new, groups))
                print("seen  " if results[-1] else "UNSEEN", f"{source}: {old!r} -> {new!r}", flush=True)
    print(f"{sum(results)} of {len(results)} changes seen")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main())
