#!/bin/sh
# Measure attention beside ONNX Runtime's GroupQueryAttention, on the same inputs, in one process. Fails when outputs
# differ or a case falls short of the speed it must reach (bench/peers/cases.py).
#
# usage: scripts/bench_peers.sh [OPTION OF bench/peers/compare.py...]
set -eu
. "$(dirname "$0")/setup.sh"

need build python
compile release -DTANDEM_TESTS=OFF -DTANDEM_EXAMPLES=OFF
venv tests/compat/requirements.txt
mkdir -p bench/results
result=bench/results/$(scripts/cpu_name.sh)-peers.csv
"$python" bench/peers/compare.py --library build/release/libtandem.so --csv "$result" "$@"
say "Compared with ONNX Runtime; $result"
