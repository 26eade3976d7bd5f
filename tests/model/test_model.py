#!/usr/bin/env python3
"""tandem-run and the converter against an independent reference, and against files that lie.

usage: test_model.py TANDEM_RUN [--model FILE]      with a converted model, its logits and tokens are checked, too
"""
import argparse
import contextlib
import io
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples"))

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import safetensors.numpy  # noqa: E402

import bad_files  # noqa: E402
import convert_model  # noqa: E402
import small_model  # noqa: E402
from caches import measure  # noqa: E402
from reference import Reference, perplexity, read_safetensors  # noqa: E402
from words import Tokenizer  # noqa: E402

TEXTS = [
    "the thing and the other thing is 1234567", "Hello world, it's 2024!", "they'll we're I'd 'tis x's 's WE'LL",
    "a  b   c    d", "  lead", "trail  ", "a 1 22   333  ", "x\n\n  y\t\tz \n", "   1", "1   ", "'", " ' s",
    "日本語のテキスト と漢字", "🙂👍🏽 family 👨‍👩‍👧", "½ ² Ⅷ ٣ 五", "naïve café e\u0301", "\u00a0nbsp\u2003em\u3000wide",
    "<|im_start|>user", "____ -- == !=", "Привет мир", "\x01\x02 control \x1c \x7f", "a\u200bb\u2028c\u0085d",
    "thththththththththth" * 20, "http://x.y/z?q=1&r=2",
]  # fmt: skip
SENTENCES = ["The quick brown fox jumps over the lazy dog.", "In 1969, people walked on the Moon for the first time:",
             "def add(a, b):\n    return a + b\n"]  # fmt: skip
EXACT_SCHEMES = ["f32+rotate", "f32+offset", "f32+rotate/f32", "f32+rotate+offset"]
SCHEMES = [
    "f16", "bf16", "fp8", "fp8-token", "int8-tensor", "int8-channel", "int8-token", "int8-group32", "int4-tensor",
    "int4-channel", "int4-token", "int4-group16", "int8-token/int4-token+rotate", "int4-tensor+rotate+offset",
    "int4-channel+rotate/fp8", "int4-channel+offset", "int4-group16+offset/f16", "int4-group16+rotate+offset",
]  # fmt: skip


class Suite:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.passed = self.failed = 0

    def check(self, ok, what, detail=""):
        self.passed += bool(ok)
        self.failed += not ok
        if not ok:
            print(f"FAILED: {what}: {detail}")

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, model, *args):
        return subprocess.run([self.program, model, *map(str, args)], capture_output=True, timeout=600)

    def output(self, model, *args):
        result = self.run(model, *args)
        if result.returncode != 0:
            raise RuntimeError(f"tandem-run {args}: {result.stderr.decode(errors='replace')}")
        return result.stdout

    def tokens(self, model, text, *args):
        return [int(token) for token in self.output(model, "--tokenize", "--prompt", text, *args).split()]

    def logits(self, model, text, *args):
        path = self.path("logits")
        self.output(model, "--raw", "--prompt", text, "--logits", path, *args)
        return np.fromfile(path, np.float32)


def check_logits(suite, what, path, text, args=(), activations="f32", **options):
    """The runner's logits of a text lie within the reference's bound."""
    reference = Reference(path, activations)
    tokens = np.array(suite.tokens(path, text, "--raw"))
    want, bound = reference.logits_and_bound(tokens, **options)
    got = suite.logits(path, text, "--activations", activations, *args).reshape(want.shape)
    error = np.abs(got - want).max(axis=1)
    suite.check((error <= bound).all(), f"{what}: logits", f"error {error.max():.3g}, bound {bound.max():.3g}")
    if not options.get("cache", "f32").startswith("f32"):  # a run that kept f32 instead would be found out
        far = np.abs(reference.logits(tokens) - want).max(axis=1)
        suite.check((far > bound).any(), f"{what}: the bound can tell", f"{far.max():.3g}, bound {bound.max():.3g}")
    elif activations == "f32":
        suite.check(bound.max() < 0.005 * want.std(), f"{what}: the bound can tell", f"{bound.max():.3g}")
    return got


def check_small_models(suite, weights):
    """Both scale forms, all scale types and both rotary pairings, in one pass and in chunks."""
    text = TEXTS[0]
    for form in convert_model.SCALES:
        for scale in (np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu):
            for pairing in ("interleaved", "half-split"):
                name = f"{form}-{np.dtype(scale).name}-{pairing}"
                path = suite.path(name)
                small_model.write_safetensors(path, weights, form, scale, pairing)
                check_logits(suite, name, path, text)
                os.unlink(path)


def check_options(suite, path):
    """What the runner can be told must not change the result beyond its bound."""
    text = TEXTS[0]
    for args in (["--chunk", 1], ["--chunk", 7], ["--threads", 1], ["--threads", 3], ["--context", 200]):
        check_logits(suite, f"{args[0]} {args[1]}", path, text, args)
    plain = suite.logits(path, text)
    for activations in ("f16", "bf16"):
        got = check_logits(suite, f"activations {activations}", path, text, activations=activations)
        suite.check((got.ravel() != plain).any(), f"activations {activations}: rounded")


def check_calibration(suite, path):
    """What --calibrate finds in a text is what the reference finds; returns it."""
    text = " and the other is not in the thing; " * 3
    suite.check(b"--calibrate" in suite.run(path, "--prompt", "x", "--cache", "int8-tensor").stderr, "no calibration")
    with open(suite.path("calibration.txt"), "w") as file:
        file.write(text)
    suite.output(path, "--calibrate", suite.path("calibration.txt"))
    found, _ = read_safetensors(path + ".calibration")
    reference = Reference(path)
    reference.logits(np.array(suite.tokens(path, text, "--raw")))
    for layer, seen in reference.seen.items():
        for name, want in measure(*seen).items():
            close = np.allclose(found[name][layer], want, rtol=1e-3, atol=1e-3 * np.abs(want).max())
            suite.check(close, f"calibration of layer {layer}: {name}")
    return found


def check_bad_calibrations(suite, path, measured):
    victim = suite.path("bad.calibration")
    for name, value in (("k_offset", np.nan), ("k_absmax", np.inf), ("v_absmax+rotate", -1.0), ("v_absmax", None)):
        damaged = {key: tensor.copy() for key, tensor in measured.items() if value is not None or key != name}
        if value is not None:
            damaged[name][1, 1, 5] = value
        safetensors.numpy.save_file(damaged, victim)
        result = suite.run(path, "--prompt", "x", "--cache", "f32+offset", "--calibration", victim)
        message = result.stderr.decode()
        suite.check(result.returncode == 1 and victim in message and name in message, f"{name} {value}", message)


def check_caches(suite, path):
    text, measured = TEXTS[0], check_calibration(suite, path)
    check_bad_calibrations(suite, path, measured)
    plain = suite.logits(path, text)
    for scheme in EXACT_SCHEMES:  # the same logits as without, up to rounding
        got = check_logits(suite, f"cache {scheme}", path, text, ["--cache", scheme], cache=scheme, measured=measured)
        suite.check((got.ravel() != plain).any(), f"cache {scheme}: not the plain one")
    for scheme in SCHEMES:
        args, options = ["--cache", scheme], {"cache": scheme, "measured": measured}
        check_logits(suite, f"cache {scheme}", path, text, args, runs=12, **options)
    longer, distance = text * 4, {}
    exact = suite.logits(path, longer)
    for scheme in ("int4-token", "int4-group32+rotate+offset"):
        distance[scheme] = np.square(suite.logits(path, longer, "--cache", scheme) - exact).mean()
    suite.check(distance["int4-group32+rotate+offset"] < distance["int4-token"], "what INT4 costs", distance)


def spell(tokens):
    """The text of tokens; special ones have none."""
    spelled = {char: byte for byte, char in small_model.spelling().items()}
    vocabulary, types, _ = small_model.vocabulary()
    return bytes(spelled[char] for token in tokens if types[token] == 1 for char in vocabulary[token])


def check_generation(suite, path):
    """Greedy text equals the reference's, and the margins are wide enough for that to be a fair demand."""
    reference = Reference(path)
    tokens, made = suite.tokens(path, "the", "--raw"), []
    for _ in range(24):
        logits, bound = reference.logits_and_bound(np.array(tokens), runs=3)
        second, first = np.sort(logits[-1])[-2:]
        suite.check(first - second > 2 * bound[-1], "greedy margin", f"{first - second:.3g}")
        made.append(int(logits[-1].argmax()))
        tokens.append(made[-1])
        if made[-1] == 2:
            break
    text = spell(made)
    got = suite.output(path, "--raw", "--prompt", "the", "--max-tokens", 24)
    suite.check(got == text + b"\n", "greedy generation", f"{got} instead of {text}")
    drawn = [suite.output(path, "--raw", "--prompt", "the", "--temperature", 2, "--top-p", 0.9, "--seed", seed)
             for seed in (1, 1, 2)]  # fmt: skip
    suite.check(drawn[0] == drawn[1] and drawn[0] != drawn[2], "seeds")
    likeliest = suite.output(path, "--raw", "--prompt", "the", "--temperature", 2, "--top-p", 1e-3, "--max-tokens", 24)
    suite.check(likeliest == got, "a small top-p leaves the likeliest token", f"{likeliest} instead of {got}")

    words = suite.path("text.txt")
    with open(words, "w") as file:
        file.write(TEXTS[0])
    tokens = np.array(suite.tokens(path, TEXTS[0], "--raw"))
    want = perplexity(reference.logits(tokens), tokens)
    got = float(suite.output(path, "--perplexity", words).split()[1])
    suite.check(abs(got / want - 1) < 1e-4, "perplexity", f"{got} instead of {want}")


def check_tokens(suite, path, vocabulary):
    tokenizer = Tokenizer(*vocabulary)
    for text in TEXTS:
        got, want = suite.tokens(path, text, "--raw"), tokenizer(text)
        suite.check(got == want, f"tokens of {text[:30]!r}", f"{got} instead of {want}")


def check_chat(suite, path, vocabulary, system):
    """The template's marks are single tokens; the same mark in a prompt is text."""
    tokenizer = Tokenizer(*vocabulary)
    start, end = (vocabulary[0].index(mark) for mark in ("<|im_start|>", "<|im_end|>"))
    prompt, want = "Is this <|im_end|> a mark?", []
    for role, content in (("system", system), ("user", prompt)):
        want += [start, *tokenizer(f"{role}\n{content}"), end, *tokenizer("\n")]
    want += [start, *tokenizer("assistant\n")]
    got = suite.tokens(path, prompt)
    suite.check(got == want, "chat template", f"{got} instead of {want}")


def check_bad_safetensors(suite, path, weights):
    good, victim = suite.path("good.safetensors"), suite.path("bad.safetensors")
    cases = []
    for scale in (np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu):
        small_model.write_safetensors(good, weights, "row128", scale)
        with open(good, "rb") as file:
            raw = file.read()
        cases += [(what, damage(raw), word) for what, damage, word in bad_files.scale_cases(scale)]
        if scale is np.float32:
            cases += [(what, damage(raw), word) for what, damage, word in bad_files.safetensors_cases(raw)]
    for what, damaged, word in cases:
        with open(victim, "wb") as file:
            file.write(damaged)
        result = suite.run(victim, "--prompt", "x")
        message = result.stderr.decode(errors="replace")
        ok = result.returncode == 1 and message.startswith(f"tandem-run: {victim}: ") and word in message
        suite.check(ok, f"safetensors, {what}", f"exit code {result.returncode}, {message!r}")
    for scheme, word in (("int7", "got int7"), ("", "--cache"), ("int4-token+", "+rotate or"), ("f32+spin", "got +spin"),
                         ("f32/", "--cache"), ("f16/f16+offset", "for keys only"), ("f32/f32/f32", "got /f32")):  # fmt: skip
        result = suite.run(path, "--prompt", "x", "--cache", scheme)
        suite.check(result.returncode == 1 and word in result.stderr.decode(), f"--cache {scheme}", result.stderr)
    for args, word in ((["--prompt", "x", "--threads", "-1"], "--threads"),
                       (["--prompt", ""], ""), ([], "--prompt"), (["--prompt", "xyz", "--context", "1"], "context"),
                       (["--perplexity", "/nonexistent"], "/nonexistent")):  # fmt: skip
        result = suite.run(path, "--raw", *args)
        suite.check(result.returncode == 1 and word in result.stderr.decode(), f"arguments {args}", result.stderr)


def convert(*args):
    message = io.StringIO()
    with contextlib.redirect_stderr(message), contextlib.redirect_stdout(message):
        return convert_model.main(list(args)), message.getvalue()


def check_converter(suite, weights):
    """A converted GGUF equals the directly written file; its weights are as near as E4M3 allows; lies are told."""
    source, target, want = suite.path("small.gguf"), suite.path("converted"), suite.path("want")
    small_model.write_gguf(source, weights)
    for form, (block, suffix) in convert_model.SCALES.items():
        code, message = convert(source, target, "--scales", form)
        suite.check(code == 0, f"convert {form}", message)
        small_model.write_safetensors(want, weights, form)
        got, expected = read_safetensors(target), read_safetensors(want)
        same = got[0].keys() == expected[0].keys() and all(
            got[0][name].tobytes() == tensor.tobytes() for name, tensor in expected[0].items()
        )
        suite.check(same, f"convert {form}: tensors")
        same = all(float_or_text(got[1].get(key)) == float_or_text(text) for key, text in expected[1].items())
        suite.check(same, f"convert {form}: metadata", f"{got[1]} instead of {expected[1]}")
        reference = Reference(target)
        for name, values in weights.values():
            if values.ndim == 2:
                stored = reference.matrix(name.removesuffix(".weight"))
                scale = np.repeat(np.repeat(reference.tensors[name + suffix], block[0], 0), block[1], 1)
                # Half a step: 2^-4 of the value, or of the smallest normal number, 2^-6.
                step = np.maximum(np.abs(stored), scale[: values.shape[0], : values.shape[1]] * 2.0**-6) * 2.0**-4
                suite.check((np.abs(stored - values) <= step * 1.001).all(), f"convert {form}: {name}")
    os.unlink(target)
    with open(source, "rb") as file:
        raw = file.read()
    victim = suite.path("bad.gguf")
    for what, damage, word in bad_files.gguf_cases(raw):
        with open(victim, "wb") as file:
            file.write(damage(raw))
        code, message = convert(victim, target)
        ok = code == 1 and message.startswith(victim) and message.count("\n") == 1 and word in message
        suite.check(ok, f"GGUF, {what}", f"exit code {code}, {message!r}")
        suite.check(not os.path.exists(target) and not os.path.exists(target + ".part"), f"GGUF, {what}: no output")


def float_or_text(text):
    try:
        return np.float32(text)
    except (TypeError, ValueError):
        return text


def check_real_model(suite, path):
    tensors, metadata = read_safetensors(path)
    lines = [bytes(tensors[f"tokenizer.{name}"]).decode().split("\n")[:-1] for name in ("tokens", "merges")]
    vocabulary = lines[0], list(tensors["tokenizer.token_types"]), lines[1]
    check_tokens(suite, path, vocabulary)
    check_chat(suite, path, vocabulary, metadata["chat_system"])
    for sentence in SENTENCES:
        check_logits(suite, f"real model, {sentence[:20]!r}", path, sentence, runs=3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="tandem-run")
    parser.add_argument("--model", help="a converted model")
    args = parser.parse_args()
    weights = small_model.make_weights()
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(args.program, folder)
        path = suite.path("small.safetensors")
        small_model.write_safetensors(path, weights)
        vocabulary = small_model.vocabulary()
        check_tokens(suite, path, vocabulary)
        check_chat(suite, path, vocabulary, small_model.SYSTEM)
        check_small_models(suite, weights)
        check_options(suite, path)
        check_caches(suite, path)
        check_generation(suite, path)
        check_bad_safetensors(suite, path, weights)
        check_converter(suite, weights)
        if args.model:
            check_real_model(suite, args.model)
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed or not suite.passed else 0


if __name__ == "__main__":
    sys.exit(main())
