#!/bin/sh
# Measure Tandem's attention beside ONNX Runtime's in one process, into bench/results/<processor>-peers.csv. Fails when
# the results differ or a required ratio is missed.
#
# usage: scripts/bench_peers.sh [OPTION...]   options of bench/peers/compare.py, such as --threads 1 --only int8-tensor
set -eu
. "$(dirname "$0")/setup.sh"

need build python
compile release -DTANDEM_TESTS=OFF -DTANDEM_EXAMPLES=OFF
venv bench/peers/requirements.txt
result=bench/results/$(scripts/cpu_name.sh)-peers.csv
mkdir -p bench/results
say "Comparing with ONNX Runtime"
"$python" bench/peers/compare.py --library build/release/libtandem.so --csv "$result" "$@"
say "Compared $(($(wc -l <"$result") - 1)) cases: $result"
