"""Mutations of bytes, independent of the format."""

import re
from collections.abc import Callable
from random import Random

EXTREMES = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63 - 1,
    2**64 - 1,
)
WORDS = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\n",
    b'"',
    b"[" * 3000,
    b"{}",
    b"nan",
    b"../",
    b"\xed\xa0\x80",
)
DIGITS = (b"0", b"-1", b"1e400", b"4294967295", b"99999999999999999999", b"1" * 5000, b"null", b'"x"')


def change(random: Random, data: bytes) -> tuple[bytes, str]:
    """The bytes with one to three changes, and their descriptions."""
    notes = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data, one = random.choice(CHANGES)(random, data)
        notes.append(one)
    return data, ", ".join(notes)


def _flip(random: Random, data: bytes) -> tuple[bytes, str]:
    if not data:
        return b"\x00", "a zero byte"
    changed, count = bytearray(data), random.choice((1, 1, 2, 8, 64))
    for _ in range(count):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed), f"{count} bits flipped"


def _cut(random: Random, data: bytes) -> tuple[bytes, str]:
    size = random.choice((0, random.randint(0, min(len(data), 64)), random.randint(0, len(data))))
    return data[:size], f"cut to {size} bytes"


def _delete(random: Random, data: bytes) -> tuple[bytes, str]:
    first, last = _span(random, data)
    return data[:first] + data[last:], f"bytes {first} to {last} deleted"


def _repeat(random: Random, data: bytes) -> tuple[bytes, str]:
    first, last = _span(random, data)
    count = random.choice((2, 3, 100))
    return data[:last] + data[first:last] * (count - 1) + data[
        last:
    ], f"bytes {first} to {last} {count} times"


def _insert(random: Random, data: bytes) -> tuple[bytes, str]:
    place = random.randint(0, len(data))
    word = random.choice((random.choice(WORDS), random.randbytes(random.choice((1, 4, 64)))))
    return data[:place] + word + data[place:], f"{word[:12]!r} at {place}"


def _integer(random: Random, data: bytes) -> tuple[bytes, str]:
    value, width = random.choice(EXTREMES), random.choice((1, 2, 4, 8))
    octets = (value % 256**width).to_bytes(width, random.choice(("little", "big")))
    place = random.randint(0, max(0, random.choice((len(data), min(len(data), 64))) - width))
    return data[:place] + octets + data[place + width :], f"{octets.hex()} in place of bytes at {place}"


def _number(random: Random, data: bytes) -> tuple[bytes, str]:
    """Another number in a text."""
    numbers = list(re.finditer(rb"-?\d+", data[:100_000]))
    if not numbers:
        return _integer(random, data)
    number, value = random.choice(numbers), random.choice(DIGITS)
    note = f"{value[:24].decode()} for {number[0][:24].decode()} at {number.start()}"
    return data[: number.start()] + value + data[number.end() :], note


def _noise(random: Random, data: bytes) -> tuple[bytes, str]:
    size = random.choice((1, 8, 100, len(data)))
    return random.randbytes(size), f"{size} bytes of noise"


def _span(random: Random, data: bytes) -> tuple[int, int]:
    first = random.randint(0, len(data))
    return first, min(len(data), first + random.choice((1, 2, 4, 16, 256, 4096)))


CHANGES: tuple[Callable[[Random, bytes], tuple[bytes, str]], ...] = (
    *(_flip, _flip, _cut, _delete, _repeat, _insert, _integer, _number, _number),
    _noise,
)
