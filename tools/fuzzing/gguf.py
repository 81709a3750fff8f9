"""Mutations of GGUF files: of the numbers and strings of the header, located by parsing it."""

import struct
from collections.abc import Iterator
from random import Random

from fuzzing import raw_bytes

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of numbers by type
STRING, ARRAY = 8, 9
SMALL = (0, 1, 2, 3, 7, 31, 33, 255, 256, 1000)
Place = tuple[int, int, str]  # offset, length, kind


def change(random: Random, data: bytes) -> tuple[bytes, str]:
    """Other values at one to three offsets of the header; or raw bytes, or packed numbers of another type."""
    kind = random.random()
    if kind < 0.15:
        return raw_bytes.change(random, data)
    values = list(_places(data))
    if kind < 0.3:
        end = values[-1][0]
        place = random.randrange(end, len(data))
        octets = random.choice((b"\xff", b"\x7c\x00", b"\x00\x7c")) * random.choice((1, 8, 200))
        return data[:place] + octets + data[place + len(octets) :], f"{octets[:2].hex()} at {place}"
    notes = []
    for place, width, what in random.sample(values, random.choice((1, 1, 2, 3))):
        old = data[place : place + width]
        if what.startswith("text"):
            new = random.choice((bytes(width), b"\xff" * width, old[::-1], b" " * width))
        else:
            value = random.choice((*SMALL, *raw_bytes.EXTREMES, int.from_bytes(old, "little") + 1))
            new = (value % 256**width).to_bytes(width, "little")
        data = data[:place] + new + data[place + width :]
        notes.append(f"{what} at {place} is {new[:8].hex()}")
    return data, ", ".join(notes)


def _places(data: bytes) -> Iterator[Place]:
    """Every number and string of the header of a valid file."""
    yield from ((4, 4, "version"), (8, 8, "tensors"), (16, 8, "keys"))
    tensors, keys = struct.unpack_from("<QQ", data, 8)
    place = 24
    for _ in range(keys):
        place = yield from _text(data, place)
        yield place, 4, "type"
        place = yield from _value(data, place + 4, int.from_bytes(data[place : place + 4], "little"))
    for _ in range(tensors):
        place = yield from _text(data, place)
        yield place, 4, "dimensions"
        (dimensions,) = struct.unpack_from("<I", data, place)
        for axis in range(dimensions):
            yield place + 4 + 8 * axis, 8, "size"
        place += 4 + 8 * dimensions
        yield from ((place, 4, "tensor's type"), (place + 4, 8, "offset"))
        place += 12


def _text(data: bytes, place: int):
    (length,) = struct.unpack_from("<Q", data, place)
    yield place, 8, "length"
    if length:
        yield place + 8, length, "text"
    return place + 8 + length


def _value(data: bytes, place: int, kind: int):
    if kind == STRING:
        return (yield from _text(data, place))
    if kind != ARRAY:
        yield place, SIZES[kind], "value"
        return place + SIZES[kind]
    of, count = struct.unpack_from("<IQ", data, place)
    yield from ((place, 4, "array's type"), (place + 4, 8, "count"))
    place += 12
    for _ in range(count):
        place = yield from _value(data, place, of)
    return place
