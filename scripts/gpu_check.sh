#!/bin/sh
# Everything worth doing on a machine with an NVIDIA GPU, in about five minutes: build, run the tests on the GPU, look for
# invalid accesses and races, measure fp8_matmul into bench/results/<gpu>.csv and .jsonl. Says what it skipped. Exit code
# 77 without a GPU.
#
# usage: scripts/gpu_check.sh [CMAKE_OPTION...]
#        scripts/gpu_check.sh --packed FOLDER   build nothing: scripts/gpu_pack.sh made FOLDER (relative to the repository)
set -eu
. "$(dirname "$0")/setup.sh"

# skip WHAT REASON
skip() {
    skipped="$skipped
  $1: $2"
    say "SKIPPED: $1: $2"
}

# check NAME COMMAND...   Run it; a failure is remembered.
check() {
    what=$1
    shift
    say "$what"
    "$@" || failed="$failed
  $what"
}

# no_gpu REASON
no_gpu() {
    echo "SKIPPED: $1; this needs a machine with an NVIDIA GPU, its driver and the CUDA toolkit"
    exit 77
}

# suites   Those that tests/gpu.cmake names, each within five minutes.
suites() {
    broken=
    while read -r suite; do
        echo "$suite"
        TEST_DEVICE=cuda TEST_PLUGIN=$TANDEM_CUDA_PLUGIN timeout 300 "$built/tests/$suite" --jobs 4 || broken="$broken $suite"
    done <"$built/tests/gpu_suites"
    [ -z "$broken" ] || echo "failed:$broken"
    [ -z "$broken" ]
}

# sanitize TOOL   Both types, all roundings, every row of the smoke suite.
sanitize() {
    compute-sanitizer --tool "$1" --error-exitcode 1 $tool bench fp8_matmul $smoke --repeat 1 --warmup 0
}

# measure FILE   The suites warm and cold, and cold without the first rows, to see where each should end; a JSON line a case.
measure() {
    bench="$tool bench fp8_matmul $gpu --dtype f16 --repeat 50 --json"
    for options in '--suite decode' '--suite decode --cold' '--suite prefill' '--suite prefill --cold'; do
        $bench $options || return 1
    done >"$1"
    for variable in ORT_FP8_GEMV_MMA=0 TANDEM_SKIP=mma_gemv,warp_gemv; do
        env $variable $bench --suite decode --cold || return 1
    done >>"$1"
}

skipped= failed= python=python3
PATH=$PATH:/usr/local/cuda/bin
command -v nvidia-smi >/dev/null || no_gpu "there is no nvidia-smi"
nvidia-smi -L || no_gpu "nvidia-smi finds no GPU"
if [ "${1:-}" = --packed ]; then
    built=$(cd "${2:?usage: scripts/gpu_check.sh --packed FOLDER}" && pwd)
    export LD_LIBRARY_PATH="$built/lib"
else
    command -v nvcc >/dev/null || no_gpu "there is no nvcc"
    need build python test
    venv examples/requirements.txt
    compile gpu "$@"
    built=$PWD/build/gpu
fi
export TANDEM_CUDA_PLUGIN="$built/libtandem_cuda.so.0"
tool=$built/bench/tandem gpu='--device cuda'
smoke="$gpu --suite smoke --dtype f16,bf16 --w8a8 none,static,dynamic"
name=$($tool info | sed -n 's/^cuda 0: //p')
say "$name"
case $name in '' | absent:*)
    echo "FAILED: the machine has a GPU, but Tandem does not find it"
    exit 1
    ;;
esac
result=bench/results/$(echo "$name" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9]\{1,\}/-/g')

check "The suites on the GPU" suites
if "$python" -c 'import gguf, ml_dtypes, numpy, safetensors' 2>/dev/null; then
    check "The pair" "$python" tests/model/test_pair.py "$built/examples/tandem-run" "$TANDEM_CUDA_PLUGIN"
else
    skip "the pair" "$python lacks the packages of examples/requirements.txt"
fi
check "Results against the reference" $tool bench fp8_matmul $smoke --check
check "Without the tensor cores' row" env ORT_FP8_GEMV_MMA=0 $tool bench fp8_matmul $smoke --check
check "Without both GEMV rows" env TANDEM_SKIP=mma_gemv,warp_gemv $tool bench fp8_matmul $smoke --check
if command -v compute-sanitizer >/dev/null; then
    check "Invalid accesses" sanitize memcheck
    check "Races in shared memory" sanitize racecheck
else
    skip "memcheck and racecheck" "no compute-sanitizer"
fi

mkdir -p bench/results
check "Measuring fp8_matmul" measure $result.jsonl
check "The table" python3 bench/table.py $result.jsonl $result.csv

say "Checked $name: $result.csv, $result.jsonl"
echo "skipped:${skipped:- nothing}"
echo "failed:${failed:- nothing}"
[ -z "$failed" ]
