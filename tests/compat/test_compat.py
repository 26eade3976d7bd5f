"""Tandem beside ONNX Runtime's GroupQueryAttention on random configurations."""
import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "peers"))

from check import Findings, Mismatch, check  # noqa: E402
from configs import FEATURES, draw           # noqa: E402
from ours import Tandem                      # noqa: E402
from tandem_api import Failure               # noqa: E402


def complaint(tandem, config, found):
    """Check one configuration and add to what was found; None, or what is wrong."""
    try:
        found.add(check(tandem, config))
    except (Mismatch, Failure) as wrong:
        return f"seed {config.seed}: {wrong}"
    return None


def summary(seeds, failures, found, counts):
    worst = ", ".join(f"{name} {share:.2f}" for name, share in sorted(found.worst.items()))
    print("features:", ", ".join(f"{name} {counts[name]}" for name in FEATURES))
    print(f"compat: {len(seeds)} configurations, {failures} failed; worst error as a share of its bound: {worst}; "
          f"cache bytes {found.cache_bytes}, of them {found.differing} differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="path of libtandem.so")
    parser.add_argument("--seed", type=int, default=1, help="of the first configuration; the next ones count up")
    parser.add_argument("--configs", type=int, default=600)
    parser.add_argument("--only", type=int, metavar="SEED", help="run and show this configuration")
    options = parser.parse_args()

    seeds = range(options.seed, options.seed + options.configs)
    if options.only is not None:
        seeds = [options.only]
        print(draw(options.only))
    tandem, found, counts, failures = Tandem(options.library), Findings(), Counter(), 0
    for seed in seeds:
        config = draw(seed)
        counts.update(name for name, exercises in FEATURES.items() if exercises(config))
        wrong = complaint(tandem, config, found)
        if wrong:
            failures += 1
            print(wrong, flush=True)
    tandem.close()
    missing = [name for name in FEATURES if not counts[name]] if options.only is None else []
    if missing:
        print("no configuration exercises:", ", ".join(missing))
    summary(seeds, failures, found, counts)
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
