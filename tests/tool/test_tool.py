#!/usr/bin/env python3
"""Run the command-line tool as a user would.

usage: test_tool.py [EMULATOR...] PATH_OF_TANDEM   with TEST_PLUGIN, a CUDA plugin that works here, on its device too
"""
import csv
import io
import json
import math
import os
import re
import subprocess
import sys

OPS = ["gqa", "kv_append", "fp8_matmul", "quantize", "dequantize"]  # that can be timed
OTHER_OPS = ["kv_shift", "merge_states", "qk", "sv"]
VARIABLES = ["TANDEM_THREADS", "TANDEM_SKIP", "TANDEM_ALLOW", "TANDEM_LOG", "TANDEM_TRACE", "TANDEM_CUDA_PLUGIN",
             "ORT_GQA_DISABLE_FLASH_ATTENTION", "ORT_MLAS_QKGEMM_S8_APPROX_VNNI", "ORT_FP8_GEMV_MMA", "CA_CPU_ISA"]
TIMES = ["min_us", "p10_us", "median_us", "p90_us"]
QUICK = ["--repeat", "2", "--warmup", "0"]
PLUGIN = os.environ.get("TEST_PLUGIN", "")
GEMV = ["--suite", "smoke", "--dtype", "f16"]  # one row, nine rows, and 33 that go to cuBLAS


def tool(*arguments, **variables):
    """Exit code, stdout and stderr of one call; variables that the library reads are only those given."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("TANDEM_") and name not in VARIABLES}
    done = subprocess.run([*sys.argv[1:], *arguments], env=environment | variables, capture_output=True, text=True,
                          timeout=600)
    return done.returncode, done.stdout, done.stderr


def bench_json(*arguments, **variables):
    code, out, err = tool("bench", *arguments, *QUICK, "--json", **variables)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_info_shows_devices_rows_and_variables():
    code, text, _ = tool("info", TANDEM_THREADS="1")
    assert code == 0
    info = json.loads(tool("info", "--json", TANDEM_THREADS="1")[1])
    cpu = info["devices"][0]
    assert cpu["kind"] == "cpu" and cpu["present"] and cpu["threads"] == 1
    assert any(device["kind"] == "cuda" for device in info["devices"])
    assert {row["op"] for row in cpu["kernels"] if not row["leaf"]} == set(OPS + OTHER_OPS)
    assert [row["name"] for row in cpu["kernels"] if row["leaf"]][-1] == "scalar"
    for device in info["devices"]:
        assert device["present"] or device["reason"]
        for row in device["kernels"]:
            assert row["usable"] == (row["reason"] == ""), row
            assert re.search(rf"\b{row['name']} +{'yes' if row['usable'] else 'no: '}", text), row
    settings = {setting["name"]: setting for setting in info["settings"]}
    assert sorted(settings) == sorted(VARIABLES)
    assert settings["TANDEM_THREADS"]["value"] == "1" and settings["TANDEM_SKIP"]["value"] is None
    assert all(setting["meaning"] and setting["meaning"] in text for setting in settings.values())


def test_info_says_what_is_skipped():
    info = json.loads(tool("info", "--json", TANDEM_SKIP="flash")[1])
    rows = {row["name"]: row for row in info["devices"][0]["kernels"]}
    assert not rows["flash"]["usable"] and "TANDEM_SKIP" in rows["flash"]["reason"]
    assert rows["naive"]["usable"]


def test_variables_of_other_libraries_take_rows_away():
    info = json.loads(tool("info", "--json", ORT_GQA_DISABLE_FLASH_ATTENTION="1", CA_CPU_ISA="scalar")[1])
    rows = {row["name"]: row for row in info["devices"][0]["kernels"]}
    assert not rows["flash"]["usable"] and "ORT_GQA_DISABLE_FLASH_ATTENTION" in rows["flash"]["reason"]
    assert [name for name, row in rows.items() if row["leaf"] and row["usable"]] == ["scalar"]


def test_odd_values_of_other_libraries_variables_are_warned_of():
    code, _, err = tool("info", ORT_FP8_GEMV_MMA="maybe", TANDEM_LOG="warn")
    assert code == 0 and "ORT_FP8_GEMV_MMA" in err and "maybe" in err and err.count("\n") == 1


def test_bad_environment_is_reported():
    code, _, err = tool("info", TANDEM_THREADS="many")
    assert code == 1 and "TANDEM_THREADS" in err


def test_bad_options_name_the_option():
    for arguments, named in [
            ("bench", "gqa"), ("bench nothing", "nothing"), ("bench gqa --nope", "--nope"), ("bench gqa --m 3", "--m"),
            ("bench gqa --kv-len 0", "--kv-len"), ("bench gqa --kv-len 5x", "--kv-len"),
            ("bench gqa --kv-len 5,", "--kv-len"), ("bench gqa --kv-len", "--kv-len"),
            ("bench gqa --kv-len 99999999999999999999", "--kv-len"), ("bench gqa --cache-k int9", "int8-tensor"),
            ("bench gqa --kv-len " + ",".join(["1"] * 33), "--kv-len"), ("bench gqa --seed -1", "--seed"),
            ("bench gqa --dtype f64", "--dtype"), ("bench fp8_matmul --block 1,x128", "--block"),
            ("bench fp8_matmul --block 0x1", "--block"), ("bench gqa --suite all", "prefill"),
            ("bench fp8_matmul --block-size 1x2x3", "--block"), ("bench fp8_matmul --w8a8 statik", "statik"),
            ("bench gqa --device tpu", "cuda"), ("bench gqa --device cuda --peak", "--peak"),
            ("bench gqa --suite smoke --kv-len 4", "--kv-len"), ("bench gqa --csv --json", "--json"),
            ("bench gqa --q-len 5 --kv-len 3", "--q-len"), ("info --csv", "--csv"), ("measure", "measure")]:
        code, out, err = tool(*arguments.split())
        assert code == 2 and out == "" and named in err and err.count("\n") == 1, (arguments, code, err)


def test_impossible_cases_fail_with_the_library_message():
    code, _, err = tool("bench", "gqa", "--q-heads", "3", "--kv-heads", "2")
    assert code == 1 and "q.dim[1]" in err
    code, _, err = tool("bench", "gqa", "--batch", "2147483647", "--kv-len", "2147483647", "--head-dim", "2147483647")
    assert code == 1 and err


def test_help():
    code, out, _ = tool("--help")
    assert code == 0 and "info" in out and "bench" in out
    code, out, _ = tool("bench", "--help")
    assert code == 0 and all(op in out for op in OPS) and "--kv-len" in out


def test_every_op_is_right_in_every_suite_of_types():
    caches = "f32,f16,bf16,int8-tensor,int8-channel,int8-token,int4-tensor,int4-channel,int4-token"
    small = ["--kv-len", "40", "--kv-heads", "2", "--head-dim", "33", "--check", "--dtype", "f32,f16,bf16",
             "--cache-k", caches]
    rows = bench_json("gqa", "--q-heads", "4", "--cache-v", "f16,int4-token", "--q-len", "1,7", *small)
    rows += bench_json("kv_append", "--cache-v", "int8-token", "--q-len", "7", *small)
    rows += bench_json("quantize", "dequantize", *small)
    rows += bench_json("fp8_matmul", "--m", "1,9", "--n", "17", "--k", "130", "--block", "1x32,16x16", "--scale-dtype",
                       "f32,bf16,e8m0", "--dtype", "f32,f16,bf16", "--check")
    assert len(rows) == 3 * 9 * (2 * 2 + 1 + 2) + 2 * 2 * 3 * 3
    assert all(math.isfinite(row["error"]) and 0 <= row["error"] < 1e-2 for row in rows)
    assert max(row["error"] for row in rows) > 0


def test_smoke_suite():
    rows = bench_json(*OPS, "--suite", "smoke", "--check", "--threads", "1,2")
    assert {row["op"] for row in rows} == set(OPS) and {row["threads"] for row in rows} == {1, 2}
    for row in rows:
        times = [row[name] for name in TIMES]
        assert times == sorted(times) and times[0] > 0 and row["repeats"] == 2, row
        assert row["gb_per_s"] > 0 and row["gflop_per_s"] >= 0 and row["impl"] and row["leaf"], row


def test_the_grid_in_csv():
    code, out, err = tool("bench", "gqa", "--kv-len", "16,32", "--threads", "1,2", "--cold", *QUICK, "--csv")
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["shape"].split()[-1], row["threads"]) for row in rows] == [
        ("kv16", "1"), ("kv16", "2"), ("kv32", "1"), ("kv32", "2")]
    assert all(None not in row.values() and float(row["median_us"]) > 0 for row in rows)


def test_copies():
    for options, copies in (((), 1), (("--copies", "3"), 3)):
        row, = bench_json("gqa", "--kv-len", "16", "--threads", "1", *options)
        assert row["copies"] == copies, row


def test_peak_and_share():
    row, = bench_json("fp8_matmul", "--n", "64", "--k", "64", "--threads", "1", "--peak")
    shares = [row[name] / row["peak_" + name] for name in ("gb_per_s", "gflop_per_s")]
    assert math.isclose(row["share"], max(shares), rel_tol=0.01) and row["share"] > 0, row


def test_an_absent_device_is_an_error():
    code, out, err = tool("bench", "gqa", "--device", "cuda", TANDEM_CUDA_PLUGIN="nowhere.so")
    assert code == 1 and out == "" and "nowhere.so" in err and err.count("\n") == 1, err


def cuda(*arguments, **variables):
    return bench_json(*arguments, "--device", "cuda", TANDEM_CUDA_PLUGIN=PLUGIN, **variables)


def cuda_test_info():
    info = json.loads(tool("info", "--json", TANDEM_CUDA_PLUGIN=PLUGIN)[1])
    device, = (device for device in info["devices"] if device["kind"] == "cuda")
    assert device["present"] and device["name"] and device["memory"] > 0 and device["cache"][1] > 0, device
    names = [row["name"] for row in device["kernels"] if row["op"] == "fp8_matmul"]
    assert names == ["mma_gemv", "warp_gemv", "dequant_cublas"], names
    assert not any(row["leaf"] for row in device["kernels"])


def cuda_test_matmul_is_right_on_every_path():
    for variables, paths in [({}, ["mma_gemv", "mma_gemv", "dequant_cublas"]),
                             ({"ORT_FP8_GEMV_MMA": "0"}, ["warp_gemv", "warp_gemv", "dequant_cublas"]),
                             ({"TANDEM_SKIP": "mma_gemv,warp_gemv"}, ["dequant_cublas"] * 3)]:
        rows = cuda("fp8_matmul", *GEMV, "--w8a8", "none,static,dynamic", "--bias", "--check", **variables)
        assert [row["impl"] for row in rows] == 3 * paths, (variables, rows)
        assert all(0 <= row["error"] < 1e-2 for row in rows) and max(row["error"] for row in rows) > 0


def cuda_test_what_is_measured():
    warm = cuda("fp8_matmul", *GEMV)
    cold = cuda("fp8_matmul", *GEMV, "--cold")
    cache = next(device for device in json.loads(tool("info", "--json", TANDEM_CUDA_PLUGIN=PLUGIN)[1])["devices"]
                 if device["kind"] == "cuda")["cache"][1]
    for row in warm + cold:
        times = [row[name] for name in TIMES]
        assert times == sorted(times) and times[0] > 0 and row["timing"] == "graph" and row["repeats"] == 2, row
        assert row["vendor_us"] > 0 and row["copy_gb_per_s"] > 0 and row["device"], row
        assert math.isclose(row["copy_share"], row["gb_per_s"] / row["copy_gb_per_s"], rel_tol=0.01), row
    weights = [64 * 256, 40 * 256, 70 * 200]
    assert all(row["copies"] == 1 for row in warm)
    # A copy holds more than its weights, in at most five pages more for each of its six buffers.
    assert all(row["copies"] * (bytes_ + 30 * 4096) > 2 * cache for row, bytes_ in zip(cold, weights)), cold


def cuda_test_without_the_vendor():
    code, out, err = tool("bench", "fp8_matmul", "--device", "cuda", "--m", "1", "--n", "64", "--k", "256", "--dtype",
                          "f16", *QUICK, "--json", TANDEM_CUDA_PLUGIN=PLUGIN, SHIM_BLAS="none")
    assert code == 0 and json.loads(out)["vendor_us"] is None and "vendor_us" in err, (out, err)


def cuda_test_attention():
    small = ["--kv-heads", "2", "--head-dim", "32", "--kv-len", "40", "--cache-k", "f16,int8-token", "--dtype", "f16",
             "--check"]
    rows = cuda("gqa", "--q-heads", "4", *small) + cuda("kv_append", *small)
    assert [row["op"] for row in rows] == ["gqa", "gqa", "kv_append", "kv_append"]
    assert all(0 <= row["error"] < 1e-2 and row["vendor_us"] is None for row in rows), rows


def cuda_test_what_no_row_takes_is_an_error():
    code, _, err = tool("bench", "fp8_matmul", "--device", "cuda", "--m", "33", "--n", "16", *QUICK,
                        TANDEM_CUDA_PLUGIN=PLUGIN, TANDEM_SKIP="dequant_cublas,mma_gemv")
    assert code == 1 and "no impl takes these lengths" in err, err


def test_what_ran_follows_the_environment():
    row, = bench_json("gqa", TANDEM_SKIP="flash")
    assert row["impl"] == "naive"
    info = json.loads(tool("info", "--json")[1])
    leaves = [kernel["name"] for kernel in info["devices"][0]["kernels"] if kernel["leaf"]]
    row, = bench_json("gqa", TANDEM_SKIP=",".join(leaves[:-1]))
    assert row["leaf"] == "scalar"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    failed = 0
    wanted = ("test_", "cuda_test_") if PLUGIN else ("test_",)
    tests = {name: test for name, test in globals().items() if name.startswith(wanted)}
    if not PLUGIN:
        print("SKIPPED: the tests on a CUDA device: TEST_PLUGIN is not set")
    for name, test in tests.items():
        try:
            test()
        except Exception as error:  # a test that breaks must not hide the others
            failed += 1
            print(f"{name}: {type(error).__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
