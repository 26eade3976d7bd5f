#!/bin/sh
# Build Tandem for AArch64 and run its tests under qemu, as processors with each kind of leaves.
#
# usage: scripts/aarch64.sh [CMAKE_OPTION...]
set -eu
. "$(dirname "$0")/setup.sh"

need build python aarch64
arm64_sysroot || exit 0
compile aarch64 "$@"
ctest --preset aarch64 --parallel "$jobs"
say "Built and tested build/aarch64"
