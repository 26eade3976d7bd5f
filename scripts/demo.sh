#!/bin/sh
# Install what is missing, build Tandem, fetch a small language model, convert it to FP8 and let it write a text.
# A second run finds all of this in build/ and only writes.
set -eu
. "$(dirname "$0")/setup.sh"

prompt="Write two sentences about the sea."

need build python
compile release -DTANDEM_TESTS=OFF
venv examples/requirements.txt
fetch_model

say "Prompt: $prompt"
build/release/examples/tandem-run "$model" --prompt "$prompt"

say "The same with a cache of INT4 in groups of 32, rotated, keys less their mean on another text"
calibration=build/model/demo.calibration
[ -f "$calibration" ] ||
    build/release/examples/tandem-run "$model" --calibrate LICENSE --tokens 512 --calibration "$calibration"
build/release/examples/tandem-run "$model" --calibration "$calibration" --prompt "$prompt" \
    --cache int4-group32+rotate+offset

say "Done: built build/release (libtandem, bench/tandem, examples/tandem-run) and ran SmolLM2-135M-Instruct with FP8 weights."
echo "The model is $model. Try: build/release/examples/tandem-run --help"
