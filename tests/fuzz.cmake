# libFuzzer targets: each reads one input from memory.
