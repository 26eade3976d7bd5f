#!/bin/sh
# Measure attention beside ONNX Runtime's GroupQueryAttention, on the same inputs, in one process. Fails when outputs
# differ or a case falls short of the speed it must reach (bench/peers/cases.py).
#
# usage: scripts/bench_peers.sh [OPTION OF bench/peers/compare.py...]
set -eu
. "$(dirname "$0")/setup.sh"

need build python
compile release
venv bench/peers/requirements.txt
"$python" bench/peers/compare.py --library build/release/libtandem.so --csv build/peers.csv "$@"
say "Compared with ONNX Runtime; the table is build/peers.csv."
