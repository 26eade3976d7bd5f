#!/bin/sh
# Format the C sources by .clang-format; with --check, only say which would change. Bodies that are included again
# for each type (*.inc) are beyond it.
set -eu
. "$(dirname "$0")/setup.sh"
need format
case ${1-} in
--check) mode="--dry-run -Werror" ;;
"") mode=-i ;;
*) echo "usage: scripts/format.sh [--check]" && exit 2 ;;
esac
find . -path ./build -prune -o \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print | xargs clang-format $mode
