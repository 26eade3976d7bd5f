#!/bin/sh
# usage: header.sh SOURCE_DIR COMPILER...   The public header alone compiles as C11 and as C++17, and the README's example
# as C11, without a warning.
set -eu
source=$1
shift
flags="-I$source/include -Wall -Wextra -Wpedantic -Werror -fsyntax-only"
for compiler in "$@"; do
    for language in "c -std=c11" "c++ -std=c++17"; do
        echo "$compiler -x $language"
        # The second include tries the guard.
        printf '#include <tandem.h>\n#include <tandem.h>\n' | "$compiler" -x $language $flags -
    done
    echo "$compiler, the README's example"
    sed -n '/^```c$/,/^```$/p' "$source/README.md" | sed '/^```/d' | "$compiler" -x c -std=c11 $flags -
done
