#!/usr/bin/env python3
"""Check what the compiled library holds. Exit code 1 when something is where it must not be.

  - VEX instructions (AVX, AVX2) and EVEX instructions (AVX-512) only in the objects written for them
  - each of these objects exports one symbol: its table
  - no static initialisers, no global that can be written, no call that prints, exits or reads the environment
    outside its one file
  - the shared library exports tdm_ names only

usage: audit.py ARCHIVE [SHARED_LIBRARY] | audit.py --self-test CC
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# (object, the vector encodings it may hold).
WIDE = [
    (r"leaf_avx2\.c\.o", {"VEX"}),
    (r"leaf_(avx512\w*|amx)\.c\.o", {"VEX", "EVEX"}),
]

# (undefined symbol, the objects that alone may have it).
CALLS = [
    (r"(__)?(v|f|vf)?printf(_chk)?|puts|putchar|putc|perror|fputs|fputc|fwrite|stdout|stderr", r"log\.c\.o"),
    (r"exit|_exit|_Exit|quick_exit|abort|__assert_fail|raise|signal|sigaction", r""),
    (r"getenv|secure_getenv|setenv|putenv|environ", r"environment\.c\.o"),
]

PREFIXES = {0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3}
ENCODINGS = {0xC4: "VEX", 0xC5: "VEX", 0x62: "EVEX"}  # in 64-bit mode these bytes begin nothing else


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def split_members(text):
    """The output of a binutils program on an archive, by member."""
    parts = re.split(r"^(?:\S*\()?(\w+\.c\.o)\)?:.*$", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def encoding_of(line):
    """The vector encoding of one line of objdump -d -w, or None."""
    match = re.match(r"\s*[0-9a-f]+:\t((?:[0-9a-f]{2} )+)", line)
    codes = [int(code, 16) for code in match[1].split()] if match else []
    while codes and codes[0] in PREFIXES:
        codes.pop(0)
    return ENCODINGS.get(codes[0]) if codes else None


def allowed_encodings(member):
    return next((allowed for pattern, allowed in WIDE if re.fullmatch(pattern, member)), set())


def wide_faults(archive):
    for member, text in split_members(output_of("objdump", "-d", "-w", archive)):
        for line in text.splitlines():
            if (encoding := encoding_of(line)) and encoding not in allowed_encodings(member):
                yield f"{member}: {encoding} instruction: {' '.join(line.split())}"
                break


def symbol_faults(archive):
    for member, text in split_members(output_of("nm", archive)):
        symbols = [line.split()[-2:] for line in text.splitlines() if line]
        exported = [name for kind, name in symbols if kind.isupper() and kind != "U"]
        if allowed_encodings(member) and len(exported) != 1:
            yield f"{member}: exports {len(exported)} symbols, want 1: {' '.join(exported)}"
        for kind, name in symbols:
            for pattern, owner in CALLS:
                if kind == "U" and re.fullmatch(pattern, name) and not re.fullmatch(owner, member):
                    yield f"{member}: refers to {name}"


def section_faults(archive):
    for member, text in split_members(output_of("objdump", "-h", archive)):
        for name, size in re.findall(r"^\s*\d+ (\S+)\s+([0-9a-f]+)", text, flags=re.M):
            if re.match(r"\.(preinit_array|init_array|fini_array|ctors|dtors)", name):
                yield f"{member}: section {name}: runs code when the library is loaded"
            if re.fullmatch(r"\.(data|bss)(\.(?!rel\.ro).*)?", name) and int(size, 16):
                yield f"{member}: section {name}: {int(size, 16)} bytes that can be written"


def export_faults(library):
    for line in output_of("nm", "-D", "--defined-only", library).splitlines():
        if not line.split()[-1].startswith("tdm_"):
            yield f"{library} exports {line.split()[-1]}"


def check(archive, library=None):
    members = split_members(output_of("nm", archive))
    if not any(allowed_encodings(member) for member, _ in members):
        yield f"{archive} has no object of a vector instruction set: nothing to check"
    yield from wide_faults(archive)
    yield from symbol_faults(archive)
    yield from section_faults(archive)
    if library:
        yield from export_faults(library)


# (file, flags, source, the complaint it must cause; "" for none).
CASES = [
    ("leaf_avx2.c", "-mavx2", "float *leaf_avx2(float *p) { for (int i = 0; i < 8; i++) p[i] *= 2; return p; }", ""),
    ("loop.c", "-mavx2", "void loop(float *p) { for (int i = 0; i < 8; i++) p[i] *= 2; }", "VEX"),
    ("leaf_avx2.c", "-mavx512f -mprefer-vector-width=512",
     "void wide(float *p) { for (int i = 0; i < 16; i++) p[i] *= 2; }", "EVEX"),
    ("leaf_avx512.c", "", "int a(void) { return 1; } int b(void) { return 2; }", "exports 2"),
    ("text.c", "", "int puts(const char *); void text(void) { puts(\"x\"); }", "refers to puts"),
    ("stop.c", "", "void abort(void); void stop(void) { abort(); }", "refers to abort"),
    ("count.c", "", "int count(void) { static int n; return ++n; }", "written"),
    ("start.c", "", "void go(void); __attribute__((constructor)) static void start(void) { go(); }", "runs code"),
]


def self_test(compiler):
    with tempfile.TemporaryDirectory() as folder:
        for name, flags, source, want in CASES:
            archive, unit = Path(folder, "x.a"), Path(folder, name)
            unit.write_text(source)
            subprocess.run([compiler, "-O3", "-fPIC", *flags.split(), "-c", unit, "-o", f"{unit}.o"], check=True)
            archive.unlink(missing_ok=True)
            output_of("ar", "rcs", archive, f"{unit}.o")
            found = [c for c in check(archive) if "nothing to check" not in c]
            if not any(want in complaint for complaint in found) if want else found:
                yield f"{name} with '{flags}': want '{want}', got {found}"
        library = Path(folder, "x.so")
        subprocess.run([compiler, "-shared", "-fPIC", Path(folder, "loop.c"), "-o", library], check=True)
        if not list(export_faults(library)):
            yield "no complaint about a shared library that exports 'loop'"


if len(sys.argv) not in (2, 3):
    sys.exit(__doc__)
complaints = list(self_test(sys.argv[2]) if sys.argv[1] == "--self-test" else check(*sys.argv[1:]))
print(*complaints, f"audit: {len(complaints)} complaints", sep="\n")
sys.exit(1 if complaints else 0)
