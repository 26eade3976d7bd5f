"""`tandem bench`, as rows of its CSV."""
import csv
import subprocess

NUMBERS = ("median_us", "gb_per_s", "gflop_per_s", "peak_gb_per_s", "peak_gflop_per_s", "share")


def bench(options, *arguments):
    command = [options.tool, "bench", *arguments, "--peak", "--csv"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = list(csv.DictReader(output.splitlines()))
    for row in rows:
        row.update({name: float(row[name]) for name in NUMBERS})
    return rows
