#!/usr/bin/env python3
"""Check the built CUDA plugin where no GPU is: what it exports and links, and what a missing or false driver looks like.

usage: plugin.py TANDEM PLUGIN [STUB_LIBCUDA]
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FORBIDDEN = r"lib(cuda|cudart|cublas\w*|tandem)\.so"  # loaded by hand after a device was found, or never


def output_of(*command, **environment):
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert run.returncode == 0, f"{' '.join(map(str, command))}: exit code {run.returncode}: {run.stderr}"
    return run.stdout + run.stderr


def check_symbols(plugin):
    exported = [line.split()[-1] for line in output_of("nm", "-D", "--defined-only", plugin).splitlines()]
    assert exported == ["tandem_backend"], f"exports {exported}"
    undefined = output_of("nm", "-D", "--undefined-only", plugin)
    assert not re.search(r"\b(tdm|cuda|cublas)\w+", undefined), undefined
    needed = output_of("readelf", "-d", plugin)
    assert not re.search(FORBIDDEN, needed), needed


def check_absence(tandem, plugin, reason, **environment):
    text = output_of(tandem, "info", TANDEM_CUDA_PLUGIN=plugin, **environment)
    line = next(line for line in text.splitlines() if line.startswith("cuda 0"))
    assert "absent" in line and re.search(reason, line), line
    print(line)


def check_start(tandem):
    """A program that does not ask for a GPU does not load the plugin."""
    text = output_of(tandem, "bench", "merge_states", "--repeat", "1", "--warmup", "0", LD_DEBUG="files")
    assert "libtandem" in text or "libc.so" in text, "the loader's messages did not arrive"
    assert "libtandem_cuda" not in text, "the plugin was loaded without need"


def main(tandem, plugin, stub=""):
    check_symbols(plugin)
    check_start(tandem)
    if Path("/dev/nvidiactl").exists():
        print("SKIPPED: there is a GPU here, so its absence cannot be looked at")
        return
    check_absence(tandem, plugin, r"no CUDA device: there is no NVIDIA driver \(cudaErrorInsufficientDriver\)", CUDA_VISIBLE_DEVICES="")
    if stub:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "libcuda.so.1").symlink_to(Path(stub).resolve())
            check_absence(tandem, plugin, r"no CUDA device: .*\(cudaErrorStubLibrary\)", LD_LIBRARY_PATH=folder)
    else:
        print("SKIPPED: the toolkit has no stub of libcuda")


if __name__ == "__main__":
    main(*sys.argv[1:])
