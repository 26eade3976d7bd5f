"""What share of the machine's limits attention reaches: the larger of bytes over the bandwidth of reading a buffer of
the same size and temperature, and multiply-adds over their peak, as time over time."""
from row import from_times
from tool import bench

COPIES = "30"  # of a cold cache: the layers of a model
INT8, INT4 = "int8-tensor,int8-channel,int8-token", "int4-channel,int4-token,int4-group32"
LONGEST = "int8-tensor,int4-channel"
GOAL = 0.8


def shares(phase, temperature, measured):
    for row in measured:
        case = f"{temperature} {row['shape']} {row['dtypes']} threads={row['threads']}"
        yield from_times(f"roofline {phase}", case, row["median_us"], row["median_us"] * row["share"], GOAL)


def rows(options):
    common = ("gqa", "--threads", ",".join(map(str, range(1, options.threads + 1))))
    for lengths, caches, *more in (("2048,8192", f"{INT8},{INT4}"), ("32768", LONGEST, "--repeat", "15")):
        decode = *common, "--kv-len", lengths, "--cache-k", caches, *more
        yield from shares("decode", "warm", bench(options, *decode))
        yield from shares("decode", "cold", bench(options, *decode, "--copies", COPIES))
    for length in ("512", "1024"):
        prefill = *common, "--q-len", length, "--kv-len", length, "--cache-k", f"f32,{LONGEST}", "--repeat", "5"
        yield from shares("prefill", "warm", bench(options, *prefill))
