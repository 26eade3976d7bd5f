#!/bin/sh
# Install what is missing, build Tandem and run every test: optimised, under AddressSanitizer with UBSan, under
# ThreadSanitizer, and for AArch64 under qemu.
#
# usage: scripts/test.sh [CMAKE_OPTION...]
set -eu
. "$(dirname "$0")/setup.sh"

passed=0 failed=0 skipped=0

# count FILE ATTRIBUTE   A number from the head of a JUnit report.
count() {
    sed -n "1,/<testcase/s/^.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1
}

# test_variant PRESET [CMAKE_OPTION...]
test_variant() {
    compile "$@"
    say "Testing ($1)"
    report=build/$1/tests.xml
    rm -f "$report"
    ctest --preset "$1" --parallel "$jobs" --output-junit "$PWD/$report" || true
    bad=$(count "$report" failures) idle=$(($(count "$report" skipped) + $(count "$report" disabled)))
    failed=$((failed + bad)) skipped=$((skipped + idle))
    passed=$((passed + $(count "$report" tests) - bad - idle))
}

need build python test aarch64
venv examples/requirements.txt tests/compat/requirements.txt tests/cuda/requirements.txt
fetch_model
test_variant release -DPython3_EXECUTABLE="$python" -DTANDEM_MODEL="$PWD/$model" "$@"
test_variant asan -DPython3_EXECUTABLE="$python" "$@"
test_variant tsan "$@"
if arm64_sysroot; then
    test_variant aarch64 "$@"
else
    skipped=$((skipped + 1))
fi

say "Built and tested: release (optimised), asan (memory, leaks, undefined behaviour), tsan (data races), aarch64 (under qemu)."
echo "Logs and reports: build/*/configure.log, build/*/build.log, build/*/tests.xml."
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
