"""Read a GGUF file, trusting nothing that it says about itself.

The layout is in the public GGUF specification: a magic word, a version, counts, typed key/value pairs, tensor
descriptions, padding, data. Every length is checked against the bytes that are left before it is used.
"""
import math
import struct

import gguf
import numpy as np

MAX_RANK = 4


class GgufError(Exception):
    """The file is not what it claims to be; the message names the part that is wrong."""


# GGUF's numbers for the types of a value, and struct's letters for them.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Cursor:
    """A position in the header that never moves past the end of the file."""

    def __init__(self, data):
        self.data = data
        self.offset = 0

    def take(self, size, what):
        if size > len(self.data) - self.offset:
            end = len(self.data)
            raise GgufError(f"{what}: needs {size} bytes at offset {self.offset}, but the file ends at {end}")
        start = self.offset
        self.offset += size
        return self.data[start:self.offset]

    def scalar(self, letter, what):
        layout = "<" + letter
        return struct.unpack(layout, self.take(struct.calcsize(layout), what))[0]

    def string(self, what):
        raw = bytes(self.take(self.scalar("Q", f"length of {what}"), what))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise GgufError(f"{what}: not UTF-8 text") from None

    def value(self, kind, what):
        if kind in SCALARS:
            return self.scalar(SCALARS[kind], what)
        if kind == STRING:
            return self.string(what)
        if kind != ARRAY:
            raise GgufError(f"type of {what}: got {kind}, want 0..12")
        element = self.scalar("I", f"element type of {what}")
        count = self.scalar("Q", f"length of {what}")
        if element in SCALARS:
            size = struct.calcsize("<" + SCALARS[element])
            raw = self.take(count * size, what)
            return list(struct.unpack(f"<{count}{SCALARS[element]}", raw))
        if element != STRING:
            raise GgufError(f"element type of {what}: got {element}, want a scalar or a string")
        return [self.string(f"{what}[{i}]") for i in range(count)]


class Tensor:
    """Where a tensor's bytes lie. `shape` is outermost first, as numpy has it."""

    def __init__(self, name, shape, kind, data):
        self.name, self.shape, self.kind, self.data = name, shape, kind, data

    def values(self):
        """The tensor as float32."""
        block, size = gguf.GGML_QUANT_SIZES[self.kind]
        row_bytes = self.shape[-1] // block * size
        rows = np.frombuffer(self.data, np.uint8).reshape(*self.shape[:-1], row_bytes)
        try:
            return gguf.dequantize(rows, self.kind).astype(np.float32).reshape(self.shape)
        except NotImplementedError:
            raise GgufError(f"type of {self.name}: {self.kind.name} has no conversion to float") from None


class GgufFile:
    """`fields` maps keys to values, `tensors` maps names to Tensor."""

    def __init__(self, data):
        cursor = Cursor(memoryview(data))
        if bytes(cursor.take(4, "magic")) != b"GGUF":
            raise GgufError("magic: this is not a GGUF file")
        version = cursor.scalar("I", "version")
        if version not in (2, 3):
            raise GgufError(f"version: got {version}, want 2 or 3")
        tensor_count = cursor.scalar("Q", "tensor count")
        field_count = cursor.scalar("Q", "field count")

        self.fields = {}
        for i in range(field_count):
            key = cursor.string(f"key of field {i}")
            self.fields[key] = cursor.value(cursor.scalar("I", f"type of {key}"), key)

        infos = [read_info(cursor, i) for i in range(tensor_count)]
        alignment = self.fields.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise GgufError(f"general.alignment: got {alignment}, want a positive number")
        data_start = -(-cursor.offset // alignment) * alignment
        self.tensors = {}
        for name, shape, kind, offset in infos:
            if name in self.tensors:
                raise GgufError(f"{name}: there are two tensors of this name")
            cursor.offset = data_start + offset
            self.tensors[name] = Tensor(name, shape, kind, cursor.take(byte_size(name, shape, kind), f"data of {name}"))


def read_info(cursor, index):
    name = cursor.string(f"name of tensor {index}")
    rank = cursor.scalar("I", f"rank of {name}")
    if not 1 <= rank <= MAX_RANK:
        raise GgufError(f"rank of {name}: got {rank}, want 1..{MAX_RANK}")
    shape = tuple(cursor.scalar("Q", f"shape of {name}") for _ in range(rank))[::-1]
    kind = cursor.scalar("I", f"type of {name}")
    try:
        kind = gguf.GGMLQuantizationType(kind)
    except ValueError:
        raise GgufError(f"type of {name}: got {kind}, which is no known tensor type") from None
    return name, shape, kind, cursor.scalar("Q", f"offset of {name}")


def byte_size(name, shape, kind):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    if min(shape) < 1 or shape[-1] % block:
        raise GgufError(f"shape of {name}: got {list(shape)}, want whole blocks of {block} in a row")
    return math.prod(shape) // block * size
