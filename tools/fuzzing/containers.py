"""Mutations of files that hold numbers: safetensors, WAV, PNG, npz. Checksums and lengths stay right."""

import io
import json
import struct
import zipfile
import zlib
from random import Random

from fuzzing import json_values, raw_bytes

Changed = tuple[bytes, str]
SIZES = (0, 1, 2, 3, 255, 1000, 44100, 60_000, 65_535, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
FLOATS = (
    0x7FC00000,
    0x7F800000,
    0xFF800000,
    0x7F7FFFFF,
    0x00000001,
)  # NaN, infinities, the largest, the least
TYPES = ("F64", "F32", "F16", "BF16", "I64", "I8", "U8", "BOOL", "F8_E4M3", "I32", "F4", "")


def safetensors(random: Random, data: bytes) -> Changed:
    """A header with other names, types, shapes and offsets; or other numbers."""
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    name = random.choice([key for key in header if key != "__metadata__"])
    kind = random.randrange(7)
    if kind == 0:
        return raw_bytes.change(random, data)
    if kind == 1:
        octets = random.choice(FLOATS).to_bytes(4, "little") * random.choice((1, 1, len(body) // 4))
        place = random.randrange(0, max(1, len(body) - len(octets) + 1), 4)
        return data[: 8 + length + place] + octets + body[
            place + len(octets) :
        ], f"{octets[:4].hex()} at {place}"
    if kind == 2:
        size = random.choice((*SIZES, length - 1, length + 1, 2**64 - 1))
        return size.to_bytes(8, "little") + data[8:], f"a header of {size} bytes, which are {length}"
    if kind == 3:
        other = random.choice(list(header))
        header[name], header[other] = header[other], header[name]
        note = f"'{name}' and '{other}' exchanged"
    elif kind == 4:
        header[name]["dtype"] = random.choice(TYPES)
        note = f"'{name}' of type {header[name]['dtype']!r}"
    elif kind == 5:
        field = random.choice(("shape", "data_offsets"))
        header[name][field], note = json_values.change_value(random, header[name][field])
        note = f"{field} of '{name}': {note}"
    else:
        header, note = json_values.change_value(random, header)
    text = json_values.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body, note


WAV = {
    **{"RIFF size": (4, 4), "size of fmt": (16, 4), "format": (20, 2), "channels": (22, 2), "rate": (24, 4)},
    **{"bytes a second": (28, 4), "bytes a frame": (32, 2), "bits": (34, 2), "size of data": (40, 4)},
}


def wav(random: Random, data: bytes) -> Changed:
    """Other values in the header of 44 bytes, and maybe noise after it."""
    if random.random() < 0.3:
        return raw_bytes.change(random, data)
    notes = []
    for name in random.sample(list(WAV), random.choice((1, 1, 2, 3))):
        place, width = WAV[name]
        value = random.choice((*SIZES, 8, 16, 24, 32, 64)) % 256**width
        data = data[:place] + value.to_bytes(width, "little") + data[place + width :]
        notes.append(f"{name} {value}")
    return data, ", ".join(notes)


def png(random: Random, data: bytes) -> Changed:
    """Another size, real or declared; chunks missing, duplicated, or replaced by noise."""
    chunks, place = [], 8
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + size]))
        place += 12 + size
    kind = random.randrange(5)
    if kind == 0:
        return raw_bytes.change(random, data)
    if kind == 1:
        width, height = random.choice(
            ((1, 1), (2, 60_000), (60_000, 2), (19_000, 9_400), (1, 10**6), (4001, 4001))
        )
        pixels = zlib.compress(bytes((1 + (width + 7) // 8) * height))
        chunks = [
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)),
            (b"IDAT", pixels),
            (b"IEND", b""),
        ]
        note = f"{width} x {height} black pixels"
    elif kind == 2:
        fields = [
            random.choice(SIZES),
            random.choice(SIZES),
            *(random.choice((0, 1, 2, 3, 4, 6, 8, 16)) for _ in "12345"),
        ]
        chunks[0] = (b"IHDR", struct.pack(">IIBBBBB", *fields))
        note = f"IHDR {fields}"
    elif kind == 3:
        place = random.randrange(len(chunks))
        name, inner = chunks[place]
        inner, note = raw_bytes.change(random, inner)
        chunks[place], note = (name, inner), f"{name.decode()}: {note}"
    else:
        name = random.choice(
            (b"PLTE", b"tRNS", b"eXIf", b"zTXt", b"iCCP", b"acTL", b"fcTL", b"IEND", b"IHDR", b"IDAT")
        )
        inner = random.choice((b"", random.randbytes(30), b"x\0\0" + zlib.compress(bytes(10**7))))
        chunks.insert(random.randrange(len(chunks) + 1), (name, inner))
        note = f"{name.decode()} of {len(inner)} bytes"
    return data[:8] + b"".join(map(_chunk, chunks)), note


def _chunk(chunk: tuple[bytes, bytes]) -> bytes:
    name, inner = chunk
    return struct.pack(">I", len(inner)) + name + inner + struct.pack(">I", zlib.crc32(name + inner))


HEADERS = (
    "{'descr': '<i8', 'fortran_order': False, 'shape': (100000, 100000), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807, 8), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (-1, 3), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1, 3), }",
    "{'descr': '|S9', 'fortran_order': False, 'shape': (1, 3), }",
    "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (1, 3), }",
    "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 3), }",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (), }",
    "{'descr': '<M8[D]', 'fortran_order': False, 'shape': (1, 3), }",
    "{'descr': '<i8', 'shape': (1, 3), }",
    "[" * 5000,
    "",
)


def npz(random: Random, data: bytes) -> Changed:
    """Members with other headers, names and sizes, compressed or not; or noise."""
    if random.random() < 0.3:
        return raw_bytes.change(random, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(members))
    kind = random.randrange(4)
    if kind == 0:
        members[name], note = raw_bytes.change(random, members[name])
        note = f"{name}: {note}"
    elif kind == 1:
        header = random.choice(HEADERS)
        members[name] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(24)
        note = f"{name}: {header[:80]}"
    elif kind == 2:
        size = random.choice((10**5, 10**6))
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': (1, {size}), }}"
        members[name] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(size)
        note = f"{name}: {size:,} compressed zeros"
    else:
        new = random.choice(("../canary.npy", "x", "input_ids", "input_ids.npy.npy", "\u2028.npy"))
        members[new], note = members.pop(name), f"{name} renamed to {new!r}"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for member, inner in members.items():
            archive.writestr(member, inner)
    return file.getvalue(), note
