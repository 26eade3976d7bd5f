"""Tandem beside ONNX Runtime's GroupQueryAttention on random configurations."""
import argparse
import sys
from collections import Counter
from pathlib import Path

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


def random_complaints(tandem, seeds, found, counts):
    for seed in seeds:
        config = draw(seed)
        counts.update(name for name, exercises in FEATURES.items() if exercises(config))
        wrong = complaint(tandem, config, found)
        if wrong:
            yield wrong


def summary(seeds, failures, found, counts):
    print("configurations by feature:", ", ".join(f"{name} {counts[name]}" for name in FEATURES))
    for dtype in ("f32", "f16"):
        shares = [f"{quantity} to the {whom} {share:.2f}" for (of, whom, quantity), share in found.worst.items()
                  if of == dtype]
        print(f"worst error as a share of its bound, {dtype}:", ", ".join(sorted(shares)))
    worst = max(found.worst.values(), default=0)
    print(f"compat: {len(seeds)} configurations, {len(differences.DIFFERENCES)} differences, {len(bad_inputs.CASES)} "
          f"bad inputs: {failures} failed; worst error {worst:.3f} of its bound; cache bytes {found.cache_bytes}, "
          f"{found.differing} differ ({found.steps} hold codes one step apart, the others floats one rounding apart)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="path of libtandem.so")
    parser.add_argument("--seed", type=int, default=1, help="of the first configuration; the next ones count up")
    parser.add_argument("--configs", type=int, default=600)
    parser.add_argument("--only", type=int, metavar="SEED", help="show this configuration and run it alone")
    options = parser.parse_args()

    tandem, found, counts = Tandem(options.library), Findings(), Counter()
    seeds = range(options.seed, options.seed + options.configs)
    if options.only is not None:
        seeds = [options.only]
        print(draw(options.only))
    wrong = list(random_complaints(tandem, seeds, found, counts))
    if options.only is None:
        wrong += [f"no configuration exercises {name}" for name in FEATURES if not counts[name]]
        wrong += [*differences.complaints(tandem), *bad_inputs.complaints(tandem)]
    tandem.close()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    summary(seeds, len(wrong), found, counts)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
