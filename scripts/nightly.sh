#!/bin/sh
# What takes too long for every change. Each step runs even when another failed; the last lines say which did.
#
# usage: scripts/nightly.sh [STEP...]   all of them unless told: clang fuzz coverage mutation tidy peers
set -eu
. "$(dirname "$0")/setup.sh"
[ $# -gt 0 ] || set -- clang fuzz coverage mutation tidy peers

# The whole suite, compiled by the other compiler.
clang_step() {
    compile clang -DTANDEM_WERROR=ON
    ctest --preset clang --parallel "$jobs"
}

fuzz_step() {
    scripts/fuzz.sh 3600
}

coverage_step() {
    compile coverage
    ctest --preset coverage --parallel "$jobs"
    gcovr --root . --filter 'common/' --filter 'cpu/' --print-summary --output build/coverage/report.txt build/coverage
    echo "by file: build/coverage/report.txt"
}

mutation_step() {
    "$python" scripts/mutate.py
    compile release -DPython3_EXECUTABLE="$python"
    "$python" tests/cuda/mutate.py "${CXX:-c++}" build/release/tests .
}

tidy_step() {
    compile release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
    find common cpu bench examples -name '*.c' | xargs -n 4 -P "$jobs" clang-tidy --quiet -p build/release
}

peers_step() {
    scripts/bench_peers.sh
}

need build python test fuzz coverage lint
venv examples/requirements.txt
failed=
for step in "$@"; do
    say "Nightly: $step"
    "${step}_step" & # in the background, for a step that is tested in place would not stop at its first failure
    wait $! || failed="$failed $step"
done
say "Nightly: ran $*"
if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
echo "all passed"
