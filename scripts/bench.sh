#!/bin/sh
# Measure the decode and prefill suites on one thread and on all, warm and cold, into bench/results/<processor>.csv.
#
# usage: scripts/bench.sh [TANDEM_BENCH_OPTION...]   such as --repeat 20
set -eu
. "$(dirname "$0")/setup.sh"

need build
compile release -DTANDEM_TESTS=OFF -DTANDEM_EXAMPLES=OFF
tool=build/release/bench/tandem
result=bench/results/$(scripts/cpu_name.sh).csv
caches=f32,f16,int8-tensor,int8-channel,int8-token,int4-token
threads=1
[ "$jobs" = 1 ] || threads=1,$jobs

# measure CACHE_STATE OP... -- OPTION...   Append rows to the result; the first column is what the caches hold.
measure() {
    state=$1
    shift
    say "Measuring ($state): $*"
    $tool bench "$@" --threads $threads --peak --csv >"$result.part"
    [ -f "$result.new" ] || sed -n '1s/^/caches,/p' "$result.part" >"$result.new"
    sed "1d; s/^/$state,/" "$result.part" >>"$result.new"
    rm "$result.part"
}

mkdir -p bench/results
rm -f "$result.new"
measure warm gqa kv_append --suite decode --cache-k $caches "$@"
measure warm gqa kv_append --suite prefill --cache-k $caches --repeat 5 "$@"
measure warm fp8_matmul --suite decode "$@"
measure warm fp8_matmul --suite prefill --repeat 5 "$@"
measure cold fp8_matmul --suite decode --cold "$@"
measure cold gqa --suite decode --cache-k int8-tensor --cold "$@"
mv "$result.new" "$result"
say "Measured $(($(wc -l <"$result") - 1)) cases with $tool: $result"
