#!/bin/sh
# Build what scripts/gpu_check.sh runs, for a machine that has a GPU but neither compilers nor a network: build/gpu-pack holds
# programs and all libraries they need but the C library's. Carry it there with the sources, and run
# scripts/gpu_check.sh --packed build/gpu-pack.
#
# usage: scripts/gpu_pack.sh ARCHITECTURE [CMAKE_OPTION...]   90 for an H100 or H200
set -eu
. "$(dirname "$0")/setup.sh"

architecture=${1:?usage: scripts/gpu_pack.sh ARCHITECTURE [CMAKE_OPTION...]}
shift
pack=build/gpu-pack
need build python test
compile gpu "-DTANDEM_CUDA_ARCHITECTURES=$architecture-real" "$@"

rm -rf $pack
mkdir -p $pack/lib $pack/bench $pack/examples $pack/tests
cp build/gpu/bench/tandem $pack/bench
cp build/gpu/examples/tandem-run $pack/examples
cp build/gpu/tests/gpu_suites $pack/tests
while read -r suite; do
    cp "build/gpu/tests/$suite" $pack/tests
done <$pack/tests/gpu_suites
cp -L build/gpu/libtandem_cuda.so.0 $pack
c_library='/(ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so'
ldd $pack/bench/tandem $pack/examples/tandem-run $pack/tests/* 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' |
    grep -vE "$c_library" | sort -u | xargs cp -Lt $pack/lib
strip $pack/tests/device_* $pack/tests/ops_*
say "Packed $(du -sh $pack | cut -f 1) into $pack"
