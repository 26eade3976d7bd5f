"""Tandem beside its peers and beside the machine's limits, as one table, and how far over or under what is required
the worst case of each part is."""
import argparse
import csv
import sys

import attention
import itself
import matmul
import model
import roofline
from row import cells, show

PARTS = ("onnxruntime decode", "onnxruntime prefill", "openvino decode", "openvino prefill", "ggml", "fp8_matmul",
         "model", "itself")
LIMITS = ("roofline decode", "roofline prefill")  # goals: falling short of them is no failure
MEASURES = {"roofline": roofline.rows, "attention": attention.rows, "fp8_matmul": matmul.rows, "model": model.rows,
            "itself": itself.rows}


def write(path, table):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, cells(None))
        writer.writeheader()
        writer.writerows(map(cells, table))


def worst(table, part, value):
    """The smallest value of a part's rows; not a number when none was measured."""
    return min((value(row) for row in table if row.part == part), default=float("nan"))


def summary(table):
    numbers = ", ".join(f"{part} {worst(table, part, lambda row: row.over):.2f}" for part in PARTS)
    shares = ", ".join(f"{part.split()[1]} {100 * worst(table, part, lambda row: row.ratio):.0f} %" for part in LIMITS)
    return f"measured over required, worst: {numbers}; roofline: {shares}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="path of libtandem.so")
    parser.add_argument("--tool", required=True, help="path of tandem")
    parser.add_argument("--run", required=True, help="path of tandem-run")
    parser.add_argument("--model", required=True, help="the example model, in FP8")
    parser.add_argument("--gguf", required=True, help="the folder of llama.cpp's copies of it")
    parser.add_argument("--csv", help="write the table to this file")
    parser.add_argument("--threads", type=int, default=2, help="measure one thread and up to so many (2)")
    parser.add_argument("--only", default="", help="attention whose case contains this text")
    parser.add_argument("--parts", nargs="+", choices=MEASURES, default=[*MEASURES])
    options = parser.parse_args()

    table = []
    show(None)
    for part in options.parts:
        for row in MEASURES[part](options):
            table.append(row)
            show(row)
    if options.csv:
        write(options.csv, table)
    for row in table:
        if row.wrong:
            print(f"{row.part} {row.case}: {row.wrong}")
    print(summary(table))
    return 1 if any(row.wrong or row.over < 1 and row.part in PARTS for row in table) else 0


if __name__ == "__main__":
    sys.exit(main())
