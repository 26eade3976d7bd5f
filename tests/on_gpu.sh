#!/bin/sh
# Run a test on the GPU, or skip it with the reason where there is none.
#
# usage: on_gpu.sh TANDEM PLUGIN PROGRAM [ARGUMENT...]
set -eu
tool=$1 plugin=$2
shift 2
device=$(TANDEM_CUDA_PLUGIN=$plugin "$tool" info | grep '^cuda 0: ')
case $device in
*': absent: '*)
    echo "SKIPPED: ${device#*absent: }"
    exit 77
    ;;
esac
echo "$device"
TEST_DEVICE=cuda TEST_PLUGIN=$plugin exec "$@"
