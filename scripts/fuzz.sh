#!/bin/sh
# Fuzz the file readers and the create calls with libFuzzer. What makes one fail is kept in build/fuzz/found/.
#
# usage: scripts/fuzz.sh SECONDS   shared out among the targets
set -eu
. "$(dirname "$0")/setup.sh"
seconds=${1:?usage: scripts/fuzz.sh SECONDS}

need build fuzz
compile fuzz
targets=$(find build/fuzz/tests -maxdepth 1 -type f -name 'fuzz_*' -perm -u+x | sort)
share=$((seconds / $(echo "$targets" | wc -l)))
mkdir -p build/fuzz/found
for target in $targets; do
    name=$(basename "$target")
    say "Fuzzing: $name for $share s"
    mkdir -p "build/fuzz/corpus/$name"
    "$target" -max_total_time=$share -timeout=20 -rss_limit_mb=2048 -verbosity=0 -print_funcs=0 -print_final_stats=1 \
        -artifact_prefix=build/fuzz/found/ "build/fuzz/corpus/$name"
done
say "Fuzzed for $seconds s: $(echo $targets | sed 's|build/fuzz/tests/||g')"
