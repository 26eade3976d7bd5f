"""Tandem beside itself: what an append costs beside a decode step, and whether one long sequence among short ones keeps
every thread busy."""
import statistics
from dataclasses import dataclass

import numpy as np

from attention import measure
from cases import Case
from row import from_times
from tandem import TandemGqa
from tandem_api import Library
from tool import bench

APPEND = 0.05    # of a decode step
CACHES = "int8-tensor,int8-token,int4-token,int4-group32"
EVERY_STEP = "--rotary", "--rotate", "--offset"
BUSY = 0.8       # of what two threads gain at best


def appends(options):
    for steps in ((), EVERY_STEP):
        measured = bench(options, "gqa", "kv_append", "--threads", "1", "--kv-len", "2048", "--cache-k", CACHES, *steps)
        gqa, append = ([row for row in measured if row["op"] == op] for op in ("gqa", "kv_append"))
        for attend, store in zip(gqa, append):
            case = f"kv_append {store['dtypes']}{', rotary' if steps else ''}"
            share = attend["median_us"] * APPEND
            yield from_times("itself", case, store["median_us"], share, 1, "5 % of a decode step")


@dataclass(frozen=True)
class Beside(Case):
    """One sequence of kv_len tokens, the others of SHORT."""
    SHORT = 128

    @property
    def kv_lens(self):
        return [self.kv_len] + [self.SHORT] * (self.batch - 1)


class Tokens:
    """Random keys and values where a sequence has tokens; the rest of the caches is never read."""

    def __init__(self, case):
        random = np.random.default_rng(0)
        self.q = random.standard_normal((case.batch, 1, case.q_heads * case.head_dim), np.float32)
        self.k, self.v = (random.standard_normal((case.batch, 1, case.kv_heads * case.head_dim), np.float32)
                          for _ in range(2))
        self.k_scale = self.v_scale = np.full(1, 0.03, np.float32)
        self.k_cache, self.v_cache = (np.zeros((case.batch, case.kv_heads, case.kv_len, case.head_dim), np.int8)
                                      for _ in range(2))
        for cache in (self.k_cache, self.v_cache):
            for b, length in enumerate(case.kv_lens):
                cache[b, :, :length] = random.integers(-127, 128, (case.kv_heads, length, case.head_dim), np.int8)


def balance(options):
    if options.threads < 2:
        return
    sides = {}
    for threads in (1, 2):
        case = Beside("itself", "decode", "int8-tensor", 32768, threads, BUSY, "8/4", 128, batch=64)
        sides[threads] = TandemGqa(Library(options.library), case, Tokens(case))
    times = measure(sides, 1)  # no peer's threads to wait for
    one, two = (statistics.median(times[threads]) * 1e6 for threads in sides)
    for side in sides.values():
        side.close()
    yield from_times("itself", "T=32768 beside 63 of 128 threads=2", two, one / 2, BUSY, "half the time of one thread")


def rows(options):
    yield from appends(options)
    yield from balance(options)
