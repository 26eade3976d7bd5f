#!/bin/sh
# Print this machine's processor as a part of a file name: amd-epyc-7763-2.
set -eu
model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
echo "${model:-$(uname -m)} $(nproc)" | tr '[:upper:]' '[:lower:]' | sed 's/([a-z]*)//g; s/[^a-z0-9]\{1,\}/-/g'
