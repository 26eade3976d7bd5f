"""Tandem beside ONNX Runtime's GroupQueryAttention on random configurations."""
import argparse
import os
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read by numpy; its threads only get in the way of matrices this small
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "peers"))

import bad_inputs                            # noqa: E402
import differences                           # noqa: E402
from check import Findings, Mismatch, check  # noqa: E402
from configs import FEATURES, draw           # noqa: E402
from ours import Tandem                      # noqa: E402


def complaint(tandem, config, found):
    """Check one configuration and add to what was found; None, or what is wrong."""
    try:
        found.add(check(tandem, config))
    except (Mismatch, RuntimeError) as wrong:  # the latter when a side refuses
        return f"seed {config.seed}: {wrong}"
    return None


def complaints(tandem, seeds, found, counts):
    """What is wrong with these configurations, as it is found."""
    for seed in seeds:
        config = draw(seed)
        counts.update(name for name, exercises in FEATURES.items() if exercises(config))
        wrong = complaint(tandem, config, found)
        if wrong:
            yield wrong


def fixed_complaints(tandem, counts):
    """What else is wrong: features left out, and what does not depend on the seed."""
    yield from (f"no configuration exercises {name}" for name in FEATURES if not counts[name])
    yield from differences.complaints(tandem)
    yield from bad_inputs.complaints(tandem)


def summary(configs, fixed, failures, found, counts):
    print("configurations by feature:", ", ".join(f"{name} {counts[name]}" for name in FEATURES))
    for dtype in ("f32", "f16"):
        shares = [f"{quantity} to the {whom} {share:.2f}" for (of, whom, quantity), share in found.worst.items()
                  if of == dtype]
        print(f"worst error as a share of its bound, {dtype}:", ", ".join(sorted(shares)))
    worst = max(found.worst.values(), default=0)
    others = f"{len(differences.DIFFERENCES)} differences, {len(bad_inputs.CASES)} bad inputs, " if fixed else ""
    print(f"compat: {configs} configurations, {others}{failures} failed; worst error {worst:.3f} of its bound; "
          f"cache bytes {found.cache_bytes}, of them {found.differing} differ ({found.steps} of codes one step apart, "
          "the others of floats one rounding apart)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="path of libtandem.so")
    parser.add_argument("--seed", type=int, default=1, help="of the first configuration; the next ones count up")
    parser.add_argument("--configs", type=int, default=1000)
    parser.add_argument("--only", type=int, metavar="SEED", help="show this configuration and run it alone")
    options = parser.parse_args()

    alone = options.only is not None
    seeds = [options.only] if alone else range(options.seed, options.seed + options.configs)
    if alone:
        print(draw(options.only))
    tandem, found, counts, failures = Tandem(options.library), Findings(), Counter(), 0
    for wrong in chain(complaints(tandem, seeds, found, counts), () if alone else fixed_complaints(tandem, counts)):
        print(wrong, flush=True)
        failures += 1
    tandem.close()
    summary(len(seeds), not alone, failures, found, counts)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
