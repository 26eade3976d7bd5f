"""llama.cpp in a process of its own. Commands come a line at a time; each answer is one line.

    tokens N      the text on stdin's next line, cut to N tokens: the text that is left, as JSON
    prompt        run these tokens through an empty context: tokens a second
    generate N    N tokens after the prompt, likeliest first, then forget them: tokens a second
"""
import argparse
import ctypes as c
import json
import sys
import time

import llama_cpp as llama
import numpy as np

CACHES = {"f16": llama.GGML_TYPE_F16, "q8_0": llama.GGML_TYPE_Q8_0}


class Worker:
    def __init__(self, path, threads, cache, context):
        self.model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, context, 512
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = CACHES[cache]
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self.context = llama.llama_init_from_model(self.model, params)
        self.memory = llama.llama_get_memory(self.context)
        self.vocab = llama.llama_model_get_vocab(self.model)
        self.prompt_tokens = []

    def tokens(self, count):
        text = json.loads(sys.stdin.readline()).encode()
        room = (llama.llama_token * len(text))()
        found = llama.llama_tokenize(self.vocab, text, len(text), room, len(text), False, False)
        self.prompt_tokens = list(room[:min(found, count)])
        return json.dumps(b"".join(map(self._piece, self.prompt_tokens)).decode())

    def _piece(self, token):
        room = c.create_string_buffer(1024)
        size = llama.llama_token_to_piece(self.vocab, token, room, len(room), 0, False)
        return room.raw[:size]

    def _decode(self, tokens):
        array = (llama.llama_token * len(tokens))(*tokens)
        if llama.llama_decode(self.context, llama.llama_batch_get_one(array, len(tokens))) != 0:
            raise RuntimeError("llama_decode failed")
        logits = llama.llama_get_logits_ith(self.context, -1)
        return int(np.ctypeslib.as_array(logits, (llama.llama_vocab_n_tokens(self.vocab),)).argmax())

    def prompt(self):
        llama.llama_memory_clear(self.memory, False)
        start = time.perf_counter()
        self.next = self._decode(self.prompt_tokens)
        return len(self.prompt_tokens) / (time.perf_counter() - start)

    def generate(self, count):
        token, start = self.next, time.perf_counter()
        for _ in range(count):
            token = self._decode([token])
        rate = count / (time.perf_counter() - start)
        llama.llama_memory_seq_rm(self.memory, 0, len(self.prompt_tokens), -1)
        return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cache", choices=CACHES, default="f16")
    parser.add_argument("--context", type=int, default=4096)
    options = parser.parse_args()
    worker = Worker(options.model, options.threads, options.cache, options.context)
    for line in sys.stdin:
        command, *arguments = line.split()
        print(getattr(worker, command)(*map(int, arguments)), flush=True)


if __name__ == "__main__":
    main()
