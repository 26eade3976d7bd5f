"""Turn the JSON lines of `tandem bench --device` into CSV, and print what matters as a table."""
import argparse
import csv
import json
from pathlib import Path

SHOWN = ["shape", "dtypes", "impl", "copies", "timing", "median_us", "p10_us", "p90_us", "gb_per_s", "copy_share",
         "vendor_us"]


def text(value):
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, help="the file to read")
    parser.add_argument("csv", type=Path, help="the file to write")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.lines.read_text(encoding="utf-8").splitlines()]
    with options.csv.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    table = [SHOWN] + [[text(row[name]) for name in SHOWN] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(SHOWN))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


if __name__ == "__main__":
    main()
