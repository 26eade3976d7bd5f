"""The example model beside llama.cpp on the better of its Q4_1 and Q8_0 weights, taking turns."""
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from cases import has
from row import Row

ROUNDS = 3
PROMPT = 6 if has("amx_int8") else 2.5
GENERATION, GENERATION_8_BIT = 2, 3
TOKENS = 32              # generated at a time
QUIET_SECONDS = 0.2
WEIGHTS = ("q4_1", "q8_0")
TEXT = Path(__file__).parents[2] / "docs" / "numerics.md"


class Llama:
    """llama.cpp in a process of its own (llama_worker.py)."""

    def __init__(self, options, weights, threads, cache, length):
        command = [sys.executable, str(Path(__file__).with_name("llama_worker.py")),
                   f"{options.gguf}/{weights}.gguf", "--threads", str(threads), "--cache", cache]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL)
        text = TEXT.read_text(encoding="utf-8") * 2
        self.text = json.loads(self.ask(f"tokens {length}\n{json.dumps(text)}"))

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("llama.cpp ended")
        time.sleep(QUIET_SECONDS)
        return answer

    def rate(self, command):
        return float(self.ask(command))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours(options, text, threads, cache):
    """Tokens a second of the prompt and of generating."""
    command = [options.run, options.model, "--raw", "--prompt", text, "--max-tokens", str(TOKENS),
               "--threads", str(threads), "--cache", cache]
    report = subprocess.run(command, check=True, capture_output=True).stderr.decode()
    return [float(re.search(rf"{what} .* ([0-9.]+) tokens/s", report)[1]) for what in ("prompt", "generation")]


def row(case, mine, theirs, required):
    """The peer's better weights are those of the higher median."""
    name = max(theirs, key=lambda weights: statistics.median(theirs[weights]))
    ratio = statistics.median(a / b for a, b in zip(mine, theirs[name]))
    return Row("model", case, statistics.median(mine), statistics.median(theirs[name]), "tokens/s", ratio, required,
               f"llama.cpp, {name}")


def short(options, threads):
    """A prompt of 512 tokens and what follows it, with f16 caches."""
    workers = {weights: Llama(options, weights, threads, "f16", 512) for weights in WEIGHTS}
    text = workers["q8_0"].text
    mine, prompts, generations = [], {name: [] for name in WEIGHTS}, {name: [] for name in WEIGHTS}
    for _ in range(ROUNDS):
        for name, worker in workers.items():
            prompts[name].append(worker.rate("prompt"))
            generations[name].append(worker.rate(f"generate {TOKENS}"))
        mine.append(ours(options, text, threads, "f16"))
    for worker in workers.values():
        worker.close()
    prompt, generation = zip(*mine)
    yield row(f"prompt of 512, f16 caches threads={threads}", prompt, prompts, PROMPT)
    yield row(f"generation after 512, f16 caches threads={threads}", generation, generations, GENERATION)


def long(options, threads, weights):
    """What follows 2048 tokens, with 8-bit caches. The peer keeps its prompt from round to round."""
    worker = Llama(options, weights, threads, "q8_0", 2048)
    worker.rate("prompt")
    mine, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(worker.rate(f"generate {TOKENS}"))
        mine.append(ours(options, worker.text, threads, "int8-token")[1])
    worker.close()
    yield row(f"generation after 2048, 8-bit caches threads={threads}", mine, {weights: theirs}, GENERATION_8_BIT)


def rows(options):
    for threads in range(1, options.threads + 1):
        prompt, generation = short(options, threads)
        yield from (prompt, generation)
        yield from long(options, threads, generation.note.split()[-1])
