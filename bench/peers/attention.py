"""Tandem's attention beside ONNX Runtime's, OpenVINO's and ggml's: the same tokens, in one process, taking turns."""
import statistics
import time

import numpy as np

from cases import all_cases
from inputs import Data
from ggml import GgmlAttention
from openvino_attention import OpenvinoAttention
from ort import OrtGqa
from row import Row
from tandem import TandemGqa
from tandem_api import Library

ROUNDS, ROUNDS_OF_SLOW = 5, 3
TURN_SECONDS = 0.1       # of one side in one round, at least one run
SLOW_SECONDS = 0.3       # a run that takes so long
QUIET_SECONDS = 0.2      # the peers' threads spin for some time after a run
EXACT = 2e-5             # difference of outputs whose values are about 1: both sides compute in f32 on the same cache
# The same of caches that the two sides rounded each in its own way, by their bits: rms of the difference relative to
# that of the outputs, about twice what comes of the rounding.
ROUNDED = {8: 0.05, 4: 0.5}


def turn(side, repeated):
    """The median seconds of a turn's runs. Where runs are short, one before them warms the caches."""
    if repeated:
        side.run()
    times, end = [], time.perf_counter() + TURN_SECONDS
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        side.run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(sides, threads):
    """The seconds of each side in each round."""
    first = {}
    for name, side in sides.items():
        start = time.perf_counter()
        side.run()
        first[name] = time.perf_counter() - start
    rounds = ROUNDS_OF_SLOW if max(first.values()) > SLOW_SECONDS else ROUNDS
    times = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            times[name].append(turn(side, first[name] < TURN_SECONDS))
            time.sleep(QUIET_SECONDS if threads > 1 and name != "ours" else 0)
    return times


def peers(case, data):
    """The peer's ways to run a case."""
    if case.peer == "onnxruntime":
        return {"flash": OrtGqa(case, data, flash=True), "naive": OrtGqa(case, data, flash=False)}
    if case.peer == "openvino":
        return {"PagedAttention": OpenvinoAttention(case, data)}
    return {{8: "q8_0", 4: "q4_0"}[case.bits]: GgmlAttention(case, data)}


def differences(ours, peer, case):
    """What is wrong with the results, or nothing; and the difference in words."""
    got, want = (Data.valid(side.out, case) for side in (ours, peer))
    largest = float(np.abs(got - want).max())
    if case.bits == 32 or case.peer == "onnxruntime":
        same = case.peer != "onnxruntime" or all(np.array_equal(getattr(ours, name), getattr(peer, name))
                                                 for name in ("k_cache", "v_cache"))
        wrong = "outputs differ" if not largest <= EXACT else "" if same else "caches differ"
        return wrong, f"largest difference {largest:.1e}"
    relative = float(np.sqrt(np.mean((got - want) ** 2) / np.mean(want ** 2)))
    return "" if relative <= ROUNDED[case.bits] else "outputs differ", f"rms difference {relative:.1e}"


def compare(library, case):
    data = Data(case)
    ours = TandemGqa(library, case, data)
    others = peers(case, data)
    times = measure({"ours": ours, **others}, case.threads)
    name = min(others, key=lambda side: statistics.median(times[side]))
    wrong, difference = differences(ours, others[name], case)
    ratio = statistics.median(peer / mine for peer, mine in zip(times[name], times["ours"]))
    for side in (ours, *others.values()):
        side.close()
    return Row(case.part, case.name, statistics.median(times["ours"]) * 1e6, statistics.median(times[name]) * 1e6,
               "us", ratio, case.required, f"{name}, {difference}", wrong)


def rows(options):
    library = Library(options.library)
    for case in all_cases():
        if case.threads <= options.threads and options.only in f"{case.part} {case.name}":
            yield compare(library, case)
