#!/usr/bin/env python3
"""Do the tests bite? Change one operator at a time in the CPU's loops and leaves, rebuild, and expect a test to fail.

A change that no test sees is listed; some of them are harmless, such as a tile that is larger than it must be. Exit
code 1 when fewer than SEEN_AT_LEAST of the changes are seen.

usage: mutate.py [CHANGES]   spread evenly over the places there are; 40 unless told
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

SEEN_AT_LEAST = 0.8
TREE = Path("build/mutation/tree")
BUILD = Path("build/mutation/build")
FILES = ["cpu/*.c", "cpu/leaves/*.inc", "cpu/leaves/vec_scalar.h", "cpu/leaves/vec_avx2.h"]
PARTS = ["CMakeLists.txt", "cmake", "include", "common", "cpu", "bench", "examples", "tests"]
CHANGES = [(r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" < ", " <= "), (r" > ", " >= "), (r" \+= ", " = "),
           (r" \? ", " && 0 ? "), (r" && ", " || "), (r"\bmax", "min"), (r" >> ", " << ")]
NOT_CODE = re.compile(r"\s*(#|//|/?\*)|.*/\*|^\w.*[,)]$|^(static|const|typedef|struct)\b")


def places():
    """Every (file, line index, changed line) there is."""
    for pattern in FILES:
        for path in sorted(Path().glob(pattern)):
            for index, line in enumerate(path.read_text().splitlines()):
                if NOT_CODE.match(line):
                    continue
                for old, new in CHANGES:
                    if re.search(old, line):
                        yield path, index, re.sub(old, new, line, count=1)


def succeeds(*command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def build():
    return succeeds("cmake", "--build", BUILD, "--parallel", "2")


def tests_pass():
    return succeeds("ctest", "--test-dir", BUILD, "-L", "leaf|ops", "-j2", "--stop-on-failure", "--timeout", "120")


def outcome(path, index, line):
    """'seen', 'unseen' or 'does not compile' for this one change."""
    text = path.read_text().splitlines()
    text[index] = line
    (TREE / path).write_text("\n".join(text) + "\n")
    result = "does not compile" if not build() else "unseen" if tests_pass() else "seen"
    shutil.copy(path, TREE / path)
    return result


def main():
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    shutil.rmtree(TREE, ignore_errors=True)
    for part in PARTS:
        copy = shutil.copytree if Path(part).is_dir() else shutil.copy
        TREE.mkdir(parents=True, exist_ok=True)
        copy(part, TREE / part)
    if not succeeds("cmake", "-S", TREE, "-B", BUILD, "-DTANDEM_TOOL=OFF", "-DTANDEM_EXAMPLES=OFF",
                    "-DCMAKE_C_FLAGS_RELEASE=-O1") or not build() or not tests_pass():
        sys.exit("mutation: the unchanged tree does not build or does not pass")
    found = list(places())
    counts = {"seen": 0, "unseen": 0, "does not compile": 0}
    for path, index, line in found[:: max(1, len(found) // wanted)][:wanted]:
        result = outcome(path, index, line)
        counts[result] += 1
        if result != "seen":
            print(f"{result}: {path}:{index + 1}: {line.strip()}", flush=True)
    tried = counts["seen"] + counts["unseen"]
    print(f"mutation: tests saw {counts['seen']} of {tried} changes ({len(found)} places)")
    return 0 if tried and counts["seen"] >= SEEN_AT_LEAST * tried else 1


if __name__ == "__main__":
    sys.exit(main())
