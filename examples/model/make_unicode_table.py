#!/usr/bin/env python3
"""Print unicode_table.h: the ranges of code points that are letters and numbers, from Python's unicodedata."""
import sys
import unicodedata


def ranges(major_class):
    """First and last code point of every run whose general category starts with the letter."""
    start = None
    for point in range(sys.maxunicode + 2):
        inside = point <= sys.maxunicode and unicodedata.category(chr(point)).startswith(major_class)
        if inside and start is None:
            start = point
        if not inside and start is not None:
            yield start, point - 1
            start = None


def table(name, major_class):
    entries = [f"{{0x{first:x}, 0x{last:x}}}," for first, last in ranges(major_class)]
    print(f"\nstatic const unicode_range {name}[] = {{")
    line = "   "
    for entry in entries:
        if len(line) + 1 + len(entry) > 120:
            print(line)
            line = "   "
        line += " " + entry
    print(line)
    print("};")


def main():
    version = unicodedata.unidata_version
    print(f"/* unicode_table.h - letters and numbers of Unicode {version}, first and last of each run.")
    print(" * Written by make_unicode_table.py; do not edit. */")
    print("/* clang-format off */")
    print("#ifndef UNICODE_TABLE_H\n#define UNICODE_TABLE_H\n\n#include <stdint.h>\n")
    print("typedef struct unicode_range {\n    uint32_t first, last;\n} unicode_range;")
    table("letters", "L")
    table("numbers", "N")
    print("\n#endif")


main()
