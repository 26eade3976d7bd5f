#!/bin/sh
# usage: header.sh INCLUDE_DIR COMPILER...   The public header alone compiles as C11 and as C++17, without a warning.
set -eu
include=$1
shift
for compiler in "$@"; do
    for language in "c -std=c11" "c++ -std=c++17"; do
        echo "$compiler -x $language"
        # The second include tries the guard.
        printf '#include <tandem.h>\n#include <tandem.h>\n' |
            "$compiler" -x $language -I"$include" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -
    done
done
