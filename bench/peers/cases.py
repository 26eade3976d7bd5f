"""The attention that is compared with peers: shapes, caches, threads, and how many times faster ours has to be."""
from dataclasses import dataclass
from pathlib import Path

BITS = {"f32": 32, "int8-tensor": 8, "int8-channel": 8, "int4-channel": 4}


@dataclass(frozen=True)
class Case:
    peer: str
    phase: str  # decode: one new token after the others; prefill: all are new; chunk: the last 256 are
    cache: str
    kv_len: int
    threads: int
    required: float
    heads: str = "16/8"
    head_dim: int = 128
    batch: int = 1
    ragged: bool = False  # sequence b of the batch has kv_len >> b tokens

    @property
    def name(self):
        batch = f" batch={self.batch}" + (" ragged" if self.ragged else "") if self.batch > 1 else ""
        return f"{self.phase} {self.heads} d{self.head_dim} {self.cache} T={self.kv_len}{batch} threads={self.threads}"

    @property
    def part(self):
        """Which of the last line's numbers the case counts for: a chunk is a prefill."""
        return self.peer if self.peer == "ggml" else f"{self.peer} {self.phase.replace('chunk', 'prefill')}"

    @property
    def q_heads(self):
        return int(self.heads.split("/")[0])

    @property
    def kv_heads(self):
        return int(self.heads.split("/")[1])

    @property
    def kv_lens(self):
        return [self.kv_len >> b if self.ragged else self.kv_len for b in range(self.batch)]

    @property
    def q_len(self):
        """New tokens of the longest sequence; a shorter one has no more than it has tokens."""
        return {"decode": 1, "prefill": self.kv_len, "chunk": 256}[self.phase]

    @property
    def q_lens(self):
        return [min(self.q_len, length) for length in self.kv_lens]

    @property
    def bits(self):
        return BITS[self.cache]

    @property
    def per_channel(self):
        return self.cache.endswith("-channel")


def has(feature):
    return f" {feature} " in Path("/proc/cpuinfo").read_text(encoding="utf-8").replace("\n", " ")


OV_PREFILL = 3 if has("amx_int8") else 1.3 if has("avx512_vnni") else 1
LENGTHS = (512, 2048, 8192, 32768)
ORT, OV, GGML = "onnxruntime", "openvino", "ggml"

TABLE = [
    # peer, phase, cache, heads, head_dim, lengths, threads, required
    (ORT, "decode", "int8-tensor", "16/8", 128, LENGTHS, (1, 2), 2),
    (ORT, "decode", "int8-tensor", "8/8", 128, (2048, 8192), (1,), 1.4),
    (ORT, "decode", "int8-tensor", "32/8", 128, (2048, 8192), (1,), 3),
    (ORT, "decode", "int8-tensor", "32/8", 128, (2048,), (2,), 3),
    (ORT, "decode", "int8-tensor", "32/4", 128, (2048, 32768), (1,), 4),
    (ORT, "decode", "int8-channel", "16/8", 128, (2048, 8192), (1,), 2),
    (ORT, "decode", "int8-tensor", "16/8", 64, (2048, 8192), (1,), 2),
    (ORT, "decode", "int4-channel", "16/8", 128, LENGTHS, (1,), 6),
    (ORT, "decode", "int4-channel", "16/8", 128, (2048,), (2,), 6),
    (ORT, "decode", "int4-channel", "32/4", 128, (2048,), (1,), 6),
    (ORT, "decode", "int4-channel", "16/8", 64, (2048,), (1,), 6),
    (ORT, "decode", "f32", "16/8", 128, LENGTHS, (1,), 1),
    (ORT, "decode", "f32", "16/8", 64, (2048,), (1,), 1),
    (ORT, "prefill", "int8-tensor", "16/8", 128, (512, 1024, 2048), (1,), 8),
    (ORT, "prefill", "int8-tensor", "16/8", 128, (1024,), (2,), 8),
    (ORT, "prefill", "int8-tensor", "8/8", 128, (512,), (1,), 8),
    (ORT, "prefill", "int8-tensor", "32/8", 128, (512,), (1,), 8),
    (ORT, "prefill", "int8-tensor", "32/4", 128, (512,), (1,), 8),
    (ORT, "prefill", "int8-tensor", "16/8", 64, (1024,), (1,), 8),
    (ORT, "prefill", "int8-channel", "16/8", 128, (512,), (1,), 8),
    (ORT, "prefill", "int4-channel", "16/8", 128, (512,), (1,), 1),
    (ORT, "prefill", "f32", "16/8", 128, (512, 1024, 2048), (1,), 2),
    (ORT, "prefill", "f32", "16/8", 128, (1024,), (2,), 2),
    (ORT, "prefill", "f32", "16/8", 64, (1024,), (1,), 2),
    (ORT, "chunk", "int8-tensor", "16/8", 128, (2048,), (1,), 1),
    (ORT, "chunk", "f32", "16/8", 128, (2048,), (1,), 1),
    (OV, "decode", "int8-tensor", "16/8", 128, LENGTHS, (1,), 3),
    (OV, "decode", "int8-tensor", "32/8", 128, (2048,), (1,), 3),
    (OV, "decode", "int8-tensor", "32/4", 128, (2048,), (1,), 3),
    (OV, "decode", "int8-tensor", "16/8", 128, (2048,), (2,), 3),
    (OV, "prefill", "int8-tensor", "16/8", 128, (512, 1024, 4096), (1,), OV_PREFILL),
    (OV, "prefill", "int8-tensor", "16/8", 128, (1024,), (2,), OV_PREFILL),
    (OV, "prefill", "f32", "16/8", 128, (512, 1024, 4096), (1,), 1),
    (GGML, "decode", "int8-tensor", "16/8", 128, (512, 2048, 8192), (1,), 4),
    (GGML, "decode", "int8-tensor", "32/8", 128, (2048,), (1,), 4),
    (GGML, "decode", "int8-tensor", "16/8", 128, (2048,), (2,), 4),
    (GGML, "decode", "int4-channel", "16/8", 128, (2048, 8192), (1,), 4),
    (GGML, "prefill", "int8-tensor", "16/8", 128, (512, 1024), (1,), 6),
    (GGML, "prefill", "int8-tensor", "16/8", 128, (1024,), (2,), 6),
    (GGML, "prefill", "int4-channel", "16/8", 128, (512,), (1,), 6),
]


def all_cases():
    for peer, phase, cache, heads, head_dim, lengths, threads, required in TABLE:
        for count in threads:
            for kv_len in lengths:
                yield Case(peer, phase, cache, kv_len, count, required, heads, head_dim)
    for cache in ("int8-tensor", "f32"):
        yield Case(ORT, "decode", cache, 1024, 2, 1, batch=8)
        yield Case(ORT, "decode", cache, 8192, 2, 1, batch=8, ragged=True)
        yield Case(ORT, "prefill", cache, 512, 2, 1, batch=4, ragged=True)
