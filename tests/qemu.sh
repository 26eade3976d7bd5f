#!/bin/sh
# usage: qemu.sh CPU COMMAND...   Run COMMAND on an emulated CPU; exit code 77 (skipped) without qemu.
cpu=$1
shift
if ! command -v qemu-x86_64 >/dev/null; then
    echo "SKIPPED: qemu-x86_64 is not installed: apt-get install qemu-user"
    exit 77
fi
exec qemu-x86_64 -cpu "$cpu" "$@"
