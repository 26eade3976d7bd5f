#!/bin/sh
# Measure the decode, prefill and cliffs suites on one thread and on all, decode of two caches and of fp8_matmul cold too,
# into bench/results/<processor>.csv, and draw them, beside the peers where bench_peers.sh measured those, in
# bench/results/<processor>.svg. Takes about ten minutes.
#
# usage: scripts/bench.sh [TANDEM_BENCH_OPTION...]   such as --repeat 20
set -eu
. "$(dirname "$0")/setup.sh"

need build python
compile release -DTANDEM_TESTS=OFF -DTANDEM_EXAMPLES=OFF
tool=build/release/bench/tandem
result=bench/results/$(scripts/cpu_name.sh).csv
caches=f32,f16,int8-tensor,int8-channel,int8-token,int4-token
threads=1
[ "$jobs" = 1 ] || threads=1,$jobs

# measure OP... OPTION...   Append rows to the result.
measure() {
    say "Measuring: $*"
    $tool bench "$@" --threads $threads --peak --csv >"$result.part"
    [ -f "$result.new" ] || head -n 1 "$result.part" >"$result.new"
    sed 1d "$result.part" >>"$result.new"
    rm "$result.part"
}

mkdir -p bench/results
rm -f "$result.new"
measure gqa kv_append --suite decode --cache-k $caches "$@"
measure gqa kv_append --suite prefill --cache-k $caches --repeat 5 "$@"
measure fp8_matmul --suite decode "$@"
measure fp8_matmul --suite prefill --repeat 5 "$@"
measure fp8_matmul --suite decode --cold "$@"
measure gqa --suite decode --cache-k int8-tensor,int4-token --copies 30 "$@"
measure gqa fp8_matmul --suite cliffs --repeat 15 "$@"
mv "$result.new" "$result"
chart=${result%.csv}.svg
python3 bench/chart.py "$result" "${result%.csv}-peers.csv" "$chart"
say "Measured $(($(wc -l <"$result") - 1)) cases with $tool: $result, $chart"
