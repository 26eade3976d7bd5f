#!/bin/sh
# Install the library into a prefix of its own, then build and run programs that find it with find_package(tandem) and
# with pkg-config.
#
# usage: install.sh SOURCE_DIR WORK_DIR shared|static [BUILD_DIR]   BUILD_DIR holds this kind; without it, it is built
set -eu
source=$1 work=$2/$3 kind=$3 build=${4:-$2/$3/build}
case $kind in
shared) shared=ON pkg_static= ;;
static) shared=OFF pkg_static=--static ;;
esac
here=$source/tests/install

mkdir -p "$work"
if [ -z "${4-}" ]; then
    echo "== build, $kind"
    cmake -S "$source" -B "$build" -DBUILD_SHARED_LIBS=$shared -DTANDEM_TESTS=OFF -DTANDEM_EXAMPLES=OFF -DTANDEM_CUDA=OFF
    cmake --build "$build"
fi

echo "== install"
rm -rf "$work/stage" "$work/first" "$work/moved" "$work/consumer"
DESTDIR=$work/stage cmake --install "$build" --prefix /opt/tandem
test -f "$work/stage/opt/tandem/include/tandem.h"
cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/moved" # an installed tree may be moved
prefix=$work/moved
if grep -r "$source" "$prefix"; then
    echo "an installed file names the place where it was built"
    exit 1
fi
# The tool finds its library by itself.
"$prefix/bin/tandem" info >/dev/null

echo "== find_package"
cmake -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix"
cmake --build "$work/consumer"
"$work/consumer/consumer"
"$work/consumer/consumer_cpp"

echo "== pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tandem.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir tandem)
test "$(pkg-config --modversion tandem)" = "$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")"
for language in "cc consumer.c" "c++ consumer.cpp"; do
    set -- $language
    "$1" "$here/$2" $(pkg-config $pkg_static --cflags --libs tandem) -Wl,-rpath,"$libdir" -o "$work/$2.out"
    "$work/$2.out"
done

echo "== what was linked"
if [ $kind = shared ]; then
    readelf -d "$work/consumer.c.out" | grep -q 'libtandem\.so\.0'
else
    if readelf -d "$work/consumer.c.out" | grep libtandem; then exit 1; fi
fi
echo "installed and used: $kind"
