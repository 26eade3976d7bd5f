"""Random configurations of GroupQueryAttention, each a function of its seed."""
from dataclasses import dataclass

import numpy as np

CACHES = ("plain", "int8-tensor", "int8-channel", "int4-tensor", "int4-channel")
PHASES = ("prompt", "decode", "chunk", "padded")


@dataclass(frozen=True)
class Config:
    """In the operator's words where it has one; lengths are tuples over the batch."""
    seed: int
    phase: str             # prompt, decode: one new token, chunk: several on top of others (batch 1),
                           # padded: chunks of different lengths in one batch (query_seqlens)
    half: bool             # float16 activations, else float32
    cache: str             # of CACHES
    batch: int
    kv_heads: int
    group: int
    head_size: int
    new: int               # sequence_length
    q_len: tuple           # valid new tokens
    kv_len: tuple          # tokens with the new ones: seqlens_k + 1
    total: int             # total_sequence_length
    past_rows: int         # rows of past_key; 0: none
    in_place: bool         # past and present are one buffer
    packed: bool
    shared_kv: bool        # no new keys: the cache is another layer's
    window: int            # local_window_size
    windowed_cache: bool   # sliding_window_cache
    causal: bool
    scale: float           # 0: the default
    softcap: float
    smooth: bool
    sink: bool
    bias: tuple            # its first two dimensions, or ()
    bias_masks: bool       # some of it is minus infinity
    capture: int           # qk_output
    rotary: int            # channels that turn; 0: none
    interleaved: bool
    position_ids: bool
    peer_flash: bool       # which of the peer's two paths it may take
    tandem_naive: bool     # Tandem's naive instead of flash

    @property
    def q_heads(self):
        return self.kv_heads * self.group

    @property
    def pos(self):
        """Tokens before the new ones."""
        return tuple(kv - q for kv, q in zip(self.kv_len, self.q_len))

    @property
    def bits(self):
        return int(self.cache[3]) if self.quantized else 16 if self.half else 32

    @property
    def quantized(self):
        return self.cache != "plain"

    @property
    def per_channel(self):
        return self.cache.endswith("-channel")

    @property
    def rows(self):
        """Rows of present_key."""
        return self.past_rows if self.windowed_cache else max(self.past_rows, self.total)

    @property
    def peer_path(self):
        """Which of the operator's two implementations takes it."""
        falls_back = self.softcap or self.smooth or self.sink or self.capture or self.total == 1
        return "flash" if self.peer_flash and not falls_back and (self.quantized or not self.half) else "naive"

    def resident(self, tokens):
        """How many of the newest rows a windowed cache holds after so many tokens, by the operator's rule."""
        step = self.past_rows - self.window + 1
        return tokens if tokens <= self.past_rows else tokens - step * -(-(tokens - self.past_rows) // step)


def draw(seed):
    """The configuration of a seed: features first, then lengths that fit them."""
    random = np.random.default_rng(seed)

    def chance(p):
        return bool(random.random() < p)

    def pick(*values):
        return values[random.integers(len(values))]

    phase = pick(*PHASES)
    cache = pick(*CACHES, "plain")
    windowed = chance(0.15)
    shared_kv = not windowed and phase != "padded" and chance(0.12)
    causal = windowed or phase == "padded" or chance(0.85)
    rotary = chance(0.4)
    size = pick(16, 32, 48, 64, 80, 128, 256) if rotary else pick(8, 16, 24, 40, 64, 72, 128, 192)
    if windowed:
        size = pick(32, 64, 128)  # the peer wants multiples of 16, of 32 with 4 bits
    batch = 1 if phase == "chunk" else pick(1, 2, 3, 4)
    window = pick(1, 2, 5, 16, 40) if windowed or causal and chance(0.3) else -1
    lengths = draw_lengths(random, phase, batch, windowed, shared_kv, window, plain=cache == "plain")
    flash = chance(0.3)  # what the peer's flash path does not take is left out
    sink = not flash and chance(0.25)
    kv_heads = pick(1, 2, 3)
    group = pick(1, 2, 3, 4, 7)
    bias = (pick(1, batch), pick(1, kv_heads * group)) if chance(0.35) else ()
    return Config(
        seed=seed, phase=phase, half=chance(0.4), cache=cache, batch=batch, kv_heads=kv_heads, group=group,
        head_size=size, **lengths, packed=not shared_kv and chance(0.25), shared_kv=shared_kv, window=window,
        windowed_cache=windowed, causal=causal, scale=pick(0.0, 0.0, 0.3, -0.2),
        softcap=0.0 if flash else pick(0.0, 2.0, 30.0), smooth=not (flash or sink) and chance(0.2), sink=sink,
        bias=bias, bias_masks=bool(bias) and chance(0.5), capture=0 if flash or windowed else pick(0, 0, 1, 2),
        rotary=pick(*range(16, size + 1, 16)) if rotary else 0, interleaved=rotary and chance(0.5),
        position_ids=rotary and chance(0.4), peer_flash=flash or chance(0.5), tandem_naive=chance(0.3))


def draw_lengths(random, phase, batch, windowed, shared_kv, window, plain):
    """Lengths and buffers that the operator accepts."""
    def between(low, high):
        return int(random.integers(low, high + 1))

    new = {"prompt": between(1, 40), "decode": 1}.get(phase, between(2, 16))
    if phase == "prompt" and between(0, 5) == 0:
        new = between(129, 300)  # more than one block of keys
    longest = new if phase == "prompt" else new + between(1, 900 if between(0, 5) == 0 else 60)
    q_len, kv_len = [new] * batch, [longest] * batch
    for i in range(1, batch):  # the first sequence is the longest
        if phase == "padded":
            q_len[i] = between(0, new)
            kv_len[i] = between(max(q_len[i], 1), longest)
        elif between(0, 2) > 0 and not (windowed and phase == "prompt"):
            kv_len[i] = between(1, longest)
            q_len[i] = min(new, kv_len[i])
    if windowed:
        past_rows, in_place = window + between(0, 6), bool(between(0, 1))
    else:
        needs_past = shared_kv or phase != "prompt" or not plain
        in_place = bool(needs_past and between(0, 1))
        grows = not (in_place or shared_kv or phase == "padded" or between(0, 2) == 0)  # present is new rows longer
        static = longest + between(0, 9) + (new if phase == "padded" else 0)
        past_rows = 0 if not needs_past else longest - new if grows else static
    total = longest
    if phase == "padded" and not windowed:
        total = between(longest, past_rows)  # only an upper bound there
    return {"new": new, "q_len": tuple(q_len), "kv_len": tuple(kv_len), "total": total, "past_rows": past_rows,
            "in_place": in_place}


# Two sequences of six tokens, one of them new, in buffers of eight.
SIMPLE = Config(seed=0, phase="decode", half=False, cache="plain", batch=2, kv_heads=1, group=2, head_size=16, new=1,
                q_len=(1, 1), kv_len=(6, 6), total=6, past_rows=8, in_place=True, packed=False, shared_kv=False,
                window=-1, windowed_cache=False, causal=True, scale=0.0, softcap=0.0, smooth=False, sink=False, bias=(),
                bias_masks=False, capture=0, rotary=0, interleaved=False, position_ids=False, peer_flash=True,
                tandem_naive=False)
PROMPT = {"phase": "prompt", "new": 6, "q_len": (6, 6)}

FEATURES = {
    **{phase: lambda c, phase=phase: c.phase == phase for phase in PHASES},
    **{f"{name} {cache}": lambda c, half=half, cache=cache: c.half == half and c.cache == cache
       for name, half in (("f32", False), ("f16", True)) for cache in CACHES},
    "batch > 1": lambda c: c.batch > 1,
    "ragged": lambda c: len(set(c.kv_len)) > 1,
    "idle sequence": lambda c: 0 in c.q_len,
    "group > 1": lambda c: c.group > 1,
    "keys > 512": lambda c: c.total > 512,
    "one buffer": lambda c: c.in_place,
    "two buffers": lambda c: c.past_rows > 0 and not c.in_place and not c.shared_kv and c.phase != "prompt",
    "no past": lambda c: c.past_rows == 0,
    "packed": lambda c: c.packed,
    "shared kv": lambda c: c.shared_kv,
    "window": lambda c: c.window >= 0 and not c.windowed_cache,
    "windowed cache": lambda c: c.windowed_cache,
    "evicting": lambda c: c.windowed_cache and c.total > c.past_rows,
    "bidirectional": lambda c: not c.causal,
    "scale": lambda c: c.scale != 0,
    "softcap": lambda c: c.softcap > 0,
    "smooth softmax": lambda c: c.smooth,
    "head sink": lambda c: c.sink,
    **{f"bias {name}": lambda c, wide=wide: c.batch > 1 and c.q_heads > 1 and tuple(d > 1 for d in c.bias) == wide
       for name, wide in (("[1,1]", (False, False)), ("[B,1]", (True, False)), ("[1,N]", (False, True)),
                          ("[B,N]", (True, True)))},
    "bias -inf": lambda c: c.bias_masks,
    "capture scores": lambda c: c.capture == 1,
    "capture probabilities": lambda c: c.capture == 2,
    "rotary half-split": lambda c: c.rotary > 0 and not c.interleaved,
    "rotary interleaved": lambda c: c.interleaved,
    "rotary partial": lambda c: 0 < c.rotary < c.head_size,
    "position ids": lambda c: c.position_ids,
    "peer naive": lambda c: c.peer_path == "naive",
    "peer flash": lambda c: c.peer_path == "flash",
    "Tandem naive": lambda c: c.tandem_naive,
    "Tandem flash": lambda c: not c.tandem_naive,
}
