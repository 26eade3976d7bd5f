#!/usr/bin/env python3
"""Check what nvcc makes of the CUDA kernels: by the table below each has the instructions it is written around, keeps its
data in registers, and uses no more of these than its launch allows for. Exit code 1 when one does not, 77 without nvcc.

PTX and ptxas' report are always read; the machine code (SASS) where nvdisasm is at hand, in PATH or as the Python package
of requirements.txt.

usage: ptx_gate.py [--nvcc NVCC] [--arch NUMBER]... SOURCE_DIR
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SKIPPED = 77
FLAGS = ["-std=c++17", "-O3", "-fmad=false"]  # as cuda/CMakeLists.txt compiles
ARCHITECTURES = [80, 89, 90, 100, 120]

# What a kernel may be required to have: (in PTX, in SASS), as regular expressions.
VECTOR_LOAD = (r"ld\.global\.nc\.L1::no_allocate\.v4\.u32", r"\bLDG\.E\.(NA\.)?128")
WIDE_LOAD = (r"ld\.(global\.)?v4", r"\bLDG?\.E\.128")
VECTOR_STORE = (r"st\.global\.v4", r"\bSTG\.E\.128")
MMA = (r"mma\.sync\.aligned\.m16n8k16", r"\bHMMA\.16816\.F32")
SHUFFLE = (r"shfl\.sync", r"\bSHFL\b")
BARRIER = (r"bar\.sync|barrier\.sync", r"\bBAR\.SYNC")

# What no kernel has: memory of a thread's own.
LOCAL = (r"\.local\b", r"\b(LDL|STL)\b")

# source: (kernel, as its demangled name begins, what it has, what it has not, registers at most)
RULES = {
    "fp8_mma_gemv.cu": [
        (r"mma_gemv<\w+, 1, false>", [VECTOR_LOAD, MMA, SHUFFLE, BARRIER], [], 80),
        (r"mma_gemv<\w+, 1, true>", [VECTOR_LOAD, MMA, SHUFFLE, BARRIER], [], 128),
        (r"mma_gemv<\w+, 2, false>", [VECTOR_LOAD, MMA, SHUFFLE, BARRIER], [], 128),
        (r"mma_gemv<\w+, [48], false>", [VECTOR_LOAD, MMA, SHUFFLE, BARRIER], [], 255),
    ],
    "fp8_warp_gemv.cu": [
        (r"warp_gemv<\w+, 1, true>", [VECTOR_LOAD, SHUFFLE], [], 80),
        (r"warp_gemv<float, 8, true>", [VECTOR_LOAD, SHUFFLE], [], 255),
        (r"warp_gemv<\w+, [248], true>", [VECTOR_LOAD, SHUFFLE], [], 168),
        (r"warp_gemv<\w+, 1, false>", [SHUFFLE], [VECTOR_LOAD], 80),
    ],
    "gqa.cu": [
        (r"attend_kernel<[1248]>", [WIDE_LOAD, SHUFFLE, BARRIER], [], 168),
        (r"merge_kernel", [SHUFFLE], [BARRIER], 64),
    ],
    "kv_append.cu": [(r"append_kernel", [SHUFFLE], [BARRIER], 96)],
    "fp8_round.cu": [(r"round_rows<\w+>", [SHUFFLE, BARRIER], [], 64)],
    "fp8_dequant.cu": [
        (r"find_exponents", [SHUFFLE], [], 64),
        (r"dequantize_chunks<\w+>", [VECTOR_LOAD, VECTOR_STORE], [], 64),
        (r"dequantize_each<\w+>", [], [VECTOR_LOAD], 64),
        (r"finish<\w+>", [], [], 64),
    ],
}


def find_nvdisasm():
    packaged = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    return shutil.which("nvdisasm") or next((str(path) for path in sorted(packaged.glob("*/bin/nvdisasm"))), None)


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def plain_name(symbol):
    """The name of a kernel with its template arguments, without its namespace and parameters."""
    name = output_of(["c++filt", symbol]).strip()
    name = re.sub(r"^void ", "", name.replace("(anonymous namespace)::", "")).replace("__nv_bfloat16", "bf16")
    name = name.replace("__half", "f16")
    return re.sub(r"(?<=>)\(.*|(?<=\w)\(.*", "", re.sub(r"\((int|bool)\)", "", name)).replace(", 1>", ", true>")


def compile_kernels(nvcc, source, arch, folder):
    """{symbol: (PTX, registers, bytes of stack and spills)}, and the compiled file."""
    root = source.parent.parent
    includes = [f"-I{root / 'include'}", f"-I{root}", f"-I{root / 'cuda'}"]
    cubin, ptx = folder / "kernels.cubin", folder / "kernels.ptx"
    output_of([nvcc, *FLAGS, *includes, f"-arch=compute_{arch}", "-ptx", source, "-o", ptx])
    # Inline assembly has lines of closing braces too, so a kernel ends where the next begins.
    bodies = dict(re.match(r"(\w+)\((.*)", part, re.S).groups() for part in ptx.read_text().split(".entry ")[1:])
    report = output_of(["ptxas", "-v", f"-arch=sm_{arch}", ptx, "-o", cubin])
    kernels = {}
    for part in report.split("Compiling entry function '")[1:]:
        symbol = part.split("'")[0]
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers = int(re.search(r"Used (\d+) registers", part)[1])
        kernels[symbol] = bodies[symbol], registers, sum(map(int, stack.groups()))
    return kernels, cubin


def machine_code(nvdisasm, cubin):
    """{symbol: SASS}"""
    parts = re.split(r"^\.text\.(\w+):$", output_of([nvdisasm, "--print-code", cubin]), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def faults_of(rule, ptx, sass, registers, memory):
    _, has, has_not, most = rule
    texts = [("PTX", 0, ptx)] + ([("SASS", 1, sass)] if sass is not None else [])
    for name, index, text in texts:
        yield from (f"{name} has no {what[index]}" for what in has if not re.search(what[index], text))
        yield from (f"{name} has {what[index]}" for what in [*has_not, LOCAL] if re.search(what[index], text))
    if memory:
        yield f"{memory} bytes of stack and spills"
    if registers > most:
        yield f"{registers} registers, want at most {most}"


def check(nvcc, nvdisasm, source, arch):
    """The lines of a report, each with whether it tells of a fault."""
    lines, rules = [], RULES[source.name]
    with tempfile.TemporaryDirectory() as folder:
        kernels, cubin = compile_kernels(nvcc, source, arch, Path(folder))
        sass = machine_code(nvdisasm, cubin) if nvdisasm else {}
    unused = list(rules)
    for symbol, (ptx, registers, memory) in kernels.items():
        name = plain_name(symbol)
        rule = next((rule for rule in rules if re.fullmatch(rule[0], name)), None)
        unused = [other for other in unused if other is not rule]
        faults = list(faults_of(rule, ptx, sass.get(symbol, "") if nvdisasm else None, registers, memory)) if rule else [
            "no rule"]
        lines.append((bool(faults), f"sm_{arch} {name}: {registers} registers {'; '.join(faults)}"))
    lines += [(True, f"sm_{arch} {source.name}: no kernel for the rule {rule[0]}") for rule in unused]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc", default=os.environ.get("NVCC", "nvcc"))
    parser.add_argument("--arch", type=int, action="append")
    parser.add_argument("source_dir", type=Path)
    wanted = parser.parse_args()
    nvcc = shutil.which(wanted.nvcc)
    if not nvcc:
        print(f"SKIPPED: there is no {wanted.nvcc}")
        return SKIPPED
    os.environ["PATH"] += os.pathsep + str(Path(nvcc).parent)
    nvdisasm = find_nvdisasm()
    if not nvdisasm:
        print("SKIPPED: machine code, for there is no nvdisasm (pip install -r tests/cuda/requirements.txt)")
    work = [(nvcc, nvdisasm, wanted.source_dir / "cuda" / source, arch) for arch in wanted.arch or ARCHITECTURES
            for source in RULES]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = [line for report in pool.map(lambda arguments: check(*arguments), work) for line in report]
    for is_fault, text in lines:
        print("FAILED" if is_fault else "ok    ", text)
    faults = sum(is_fault for is_fault, _ in lines)
    print(f"{len(lines)} kernels, {faults} with faults" + ("" if nvdisasm else ", without a look at machine code"))
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
