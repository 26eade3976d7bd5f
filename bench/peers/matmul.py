"""fp8_matmul beside what the machine reads and multiplies at best, all from `tandem bench`."""
import os
import statistics
import subprocess
import sys

from cases import has
from row import from_times
from tool import bench

READ_M1 = 1 / 1.4                # of the plain read's speed, weights cold
READ_AMX, FMA_SMALL = 1 / 2.2, 0.85
FMA_LARGE, SGEMM_AMX = 0.80, 2.3
NO_CLIFF = 0.8                   # one more row of activations may cost a row a quarter more
SGEMM = """
import sys, time, statistics, numpy as np
a, b = (np.random.default_rng(0).standard_normal((n, 4096), np.float32) for n in (512, 4096))
times = []
for _ in range(6):
    start = time.perf_counter(); a @ b.T; times.append(time.perf_counter() - start)
print(statistics.median(times[1:]) * 1e6)
"""


def measure(options, threads, m, n, *more):
    return bench(options, "fp8_matmul", "--threads", str(threads), "--m", m, "--n", n, "--k", n, *more)


def read_us(row):
    return row["median_us"] * row["gb_per_s"] / row["peak_gb_per_s"]


def multiply_us(row):
    return row["median_us"] * row["gflop_per_s"] / row["peak_gflop_per_s"]


def row_of(row, threads, peer, required, note):
    shape = " ".join(row["shape"].split()[:3])
    return from_times("fp8_matmul", f"{shape} threads={threads}", row["median_us"], peer, required, note)


def small(options, threads):
    for n in ("4096", "8192"):
        row, = measure(options, threads, "1", n, "--cold")
        yield row_of(row, threads, read_us(row), READ_M1, "plain read, cold")
    for row in measure(options, threads, "2,3,4,8", "4096", "--cold"):
        if has("amx_int8"):
            yield row_of(row, threads, read_us(row), READ_AMX, "plain read, cold")
        else:
            yield row_of(row, threads, max(multiply_us(row), read_us(row)), FMA_SMALL, "FMA peak or plain read, cold")


def sgemm_us(threads):
    """OpenBLAS, as numpy brings it, on its AVX-512 kernels, whatever it takes the processor for."""
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OPENBLAS_CORETYPE": "SkylakeX"}
    command = [sys.executable, "-c", SGEMM]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=variables).stdout)


def large(options, threads):
    row, = measure(options, threads, "512", "4096", "--repeat", "5")
    if has("amx_int8"):
        yield row_of(row, threads, sgemm_us(threads), SGEMM_AMX, "OpenBLAS sgemm on f32 weights")
    else:
        yield row_of(row, threads, multiply_us(row), FMA_LARGE, "FMA peak")


def cliffs(options, threads):
    """A row of activations must not cost much more where one more of them leads to another kernel or tile."""
    runs = [measure(options, threads, "8,9,16,17,32,33", "4096") for _ in range(3)]
    time = {int(rows[0]["shape"].split()[0][1:]): statistics.median(row["median_us"] for row in rows)
            for rows in zip(*runs)}
    for m in (8, 16, 32):
        yield from_times("fp8_matmul", f"m{m + 1} n4096 k4096 threads={threads}", time[m + 1],
                         time[m] * (m + 1) / m, NO_CLIFF, f"m{m}, a row")


def rows(options):
    for threads in range(1, options.threads + 1):
        for part in (small, large, cliffs):
            yield from part(options, threads)
