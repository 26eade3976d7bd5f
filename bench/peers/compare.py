"""Tandem's attention beside ONNX Runtime's, on the same inputs, in one process, taking turns."""
import argparse
import csv
import statistics
import sys
import time

import numpy as np

from cases import Data, all_cases
from ort import OrtGqa
from tandem import TandemGqa
from tandem_api import Library

ROUNDS = 5
TURN_SECONDS = 0.1       # of one side in one round, at least one run
QUIET_SECONDS = 0.2      # ONNX Runtime's threads spin for some time after a run
TOLERANCE = 2e-5         # of outputs whose values are about 1: both sides compute in f32
COLUMNS = {"case": "<43", "ours_us": ">11", "peer_us": ">11", "ours_min_us": ">11", "peer_min_us": ">11",
           "peer_path": ">9", "ratio": ">6", "required": ">8", "max_difference": ">14", "same_cache": ">10"}


def turn(side):
    """Microseconds of each run in one turn; the first run warms the caches and does not count."""
    side.run()
    times, end = [], time.perf_counter() + TURN_SECONDS
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        side.run()
        times.append((time.perf_counter() - start) * 1e6)
    return times


def measure(sides, threads):
    """The microseconds of each side's runs over all rounds."""
    times = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            times[name] += turn(side)
            time.sleep(QUIET_SECONDS if threads > 1 else 0)
    return times


def compare(library, case):
    data = Data(case)
    ours = TandemGqa(library, case, data)
    sides = {"ours": ours, "flash": OrtGqa(case, data, flash=True), "naive": OrtGqa(case, data, flash=False)}
    times = measure(sides, case.threads)
    median = {name: statistics.median(values) for name, values in times.items()}
    path = min(("flash", "naive"), key=median.get)
    peer = sides[path]
    same_cache = np.array_equal(ours.k_cache, peer.k_cache) and np.array_equal(ours.v_cache, peer.v_cache)
    difference = float(np.abs(ours.out - peer.out).max())
    ours.close()
    return {"case": case.name, "ours_us": round(median["ours"], 1), "peer_us": round(median[path], 1),
            "ours_min_us": round(min(times["ours"]), 1), "peer_min_us": round(min(times[path]), 1), "peer_path": path,
            "ratio": round(median[path] / median["ours"], 2), "required": case.required or "",
            "max_difference": f"{difference:.1e}", "same_cache": "yes" if same_cache else "no"}


def agrees(row):
    return float(row["max_difference"]) <= TOLERANCE and row["same_cache"] == "yes"


def print_row(row):
    print("  ".join(format(row[name], width) for name, width in COLUMNS.items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="path of libtandem.so")
    parser.add_argument("--csv", help="write the table to this file")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    options = parser.parse_args()

    library, rows, worst = Library(options.library), [], {}
    print_row({name: name for name in COLUMNS})
    for case in all_cases(options.threads):
        if options.only not in case.name:
            continue
        row = compare(library, case)
        rows.append(row)
        print_row(row)
        if case.required:
            worst[case.phase] = min(worst.get(case.phase, float("inf")), row["ratio"] / case.required)
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)

    wrong = [row["case"] for row in rows if not agrees(row)]
    if wrong:
        print("outputs or caches differ:", "; ".join(wrong))
    print("worst measured/required:", ", ".join(f"{phase} {value:.2f}" for phase, value in worst.items()) or "no case")
    return 1 if wrong or any(value < 1 for value in worst.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
