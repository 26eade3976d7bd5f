#!/usr/bin/env python3
"""Check who includes whom, by the table of docs/design.md. Exit code 1 when a file breaks a rule.

usage: layering.py SOURCE_DIR | layering.py --self-test
"""
import re
import sys
import tempfile
from pathlib import Path

FOLDERS = ("include", "common", "cpu", "cuda", "bench", "examples", "tests")
SUFFIXES = {".c", ".h", ".inc", ".cu", ".cuh", ".cpp"}
SOFT_LINES = 300
STANDARD = set("""assert.h ctype.h errno.h fenv.h float.h inttypes.h limits.h math.h stdalign.h stdarg.h stdatomic.h
stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h time.h""".split())

# What a folder's files may include of the tree: the folder's own files and these.
REACHES = {
    "include": (),
    "common": ("include/",),
    "cpu": ("include/", "common/"),
    "cuda": ("include/", "common/backend.h", "common/convert.h"),
    "bench": ("include/", "common/", "cpu/", "cuda/", "tests/reference/"),
    "examples": ("include/",),
    "tests": ("include/", "common/", "cpu/", "cuda/", "bench/", "examples/"),
}

# (a header from outside the tree, the files that alone may include it), as regular expressions.
OWNERS = [
    (r"cpuinfo\.h", r"cpu/isa\.c"),
    (r"pthreadpool\.h", r"common/pool\.c"),
    (r"(cuda|cublas)\w*\.h", r"cuda/.*|tests/(cuda|shim)/.*"),
    (r"simde/.*", r"tests/leaf/emulate_\w+\.h"),
    (r"\w*intrin\.h|arm_\w+\.h", r"cpu/leaves/(vec|leaf)_\w+\.(h|inc|c)|tests/.*"),
]

# (text, the files that alone may hold it, what it means).
WORDS = [
    (r"\bcpu_backend\b|tandem_cuda\b", r"common/backends\.c|cpu/.*|cuda/.*|bench/.*|tests/.*", "names a backend"),
    (r'"/(home|usr|opt|root|work)/', r"", "absolute path"),
]


def files_of(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path, path.relative_to(root).as_posix()


def resolve(root, path, header):
    """The file of the tree that `header` names from `path`, as a path under root, or None."""
    for base in (path.parent, root / "include", root):
        target = (base / header).resolve()
        if target.is_file() and target.is_relative_to(root):
            return target.relative_to(root).as_posix()
    return None


def include_fault(root, path, name, header):
    """What is wrong with this include, or None."""
    folder = name.split("/")[0]
    target = resolve(root, path, header)
    if target:
        allowed = target.startswith((folder + "/",) + REACHES[folder])
        return None if allowed else f"{folder}/ may not include {target}"
    if folder == "include" and header not in STANDARD:
        return f"the public header may only include the C library, not {header}"
    for pattern, owner in OWNERS:
        if re.fullmatch(pattern, header) and not re.fullmatch(owner, name):
            return f"{header} belongs to {owner}"
    return None


def check(root):
    """All complaints about the tree under root."""
    root = root.resolve()
    complaints = []
    for path, name in files_of(root):
        lines = path.read_text().splitlines()
        if len(lines) > SOFT_LINES:
            print(f"note: {name} has {len(lines)} lines (soft limit {SOFT_LINES})")
        for number, line in enumerate(lines, 1):
            include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            faults = [include_fault(root, path, name, include[1])] if include else [
                f"{meaning}: {line.strip()}" for pattern, owner, meaning in WORDS
                if re.search(pattern, line) and not re.fullmatch(owner, name)]
            complaints += [f"{name}:{number}: {fault}" for fault in faults if fault]
    return complaints


# One broken file per rule: each must be complained about, and the good tree must not.
GOOD = {
    "include/tandem.h": "#include <stdint.h>\n",
    "common/backend.h": '#include "tandem.h"\n',
    "common/ops.h": '#include "backend.h"\n',
    "common/pool.c": "#include <pthreadpool.h>\n",
    "cpu/isa.c": '#include <cpuinfo.h>\n#include "common/backend.h"\n',
    "cpu/leaves/vec_avx2.h": "#include <immintrin.h>\n",
    "tests/case.c": '#include "cpu/leaves/vec_avx2.h"\n',
}
BAD = [
    ("include/tandem.h", "#include <pthread.h>\n"),
    ("common/ops.h", '#include "cpu/isa.c"\n'),
    ("common/ops.h", "extern const int cpu_backend;\n"),
    ("common/ops.h", 'const char *p = "/usr/lib/x";\n'),
    ("common/ops.h", "#include <pthreadpool.h>\n"),
    ("cpu/naive.c", "#include <cpuinfo.h>\n"),
    ("cpu/naive.c", "#include <immintrin.h>\n"),
    ("cpu/naive.c", "#include <cuda_runtime.h>\n"),
    ("cpu/naive.c", '#include "../tests/case.c"\n'),
    ("cuda/backend.c", '#include "common/ops.h"\n'),
    ("examples/host.c", '#include "common/backend.h"\n'),
]


def complaints_of(tree):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check(Path(folder))


def self_test():
    wrong = complaints_of(GOOD)
    wrong += [f"no complaint about {name}: {text.strip()}" for name, text in BAD
              if not any(c.startswith(name) for c in complaints_of({**GOOD, name: text}))]
    return wrong


if len(sys.argv) != 2:
    sys.exit(__doc__)
found = self_test() if sys.argv[1] == "--self-test" else check(Path(sys.argv[1]))
print(*found, f"layering: {len(found)} complaints", sep="\n")
sys.exit(1 if found else 0)
