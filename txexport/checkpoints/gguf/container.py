"""The GGUF container, versions 2 and 3: typed metadata, a table of tensors, and their aligned bytes.

Source: ggml-org/ggml, docs/gguf.md. Little-endian throughout.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from txexport.checkpoints.gguf.tensor_types import TYPES, UNREAD, TensorType
from txexport.checkpoints.stored import reading
from txexport.errors import CheckpointError, UnsupportedError, shown

MAGIC, VERSIONS = b"GGUF", (2, 3)
STRING, ARRAY, BOOL = 8, 9, 7
NUMBERS = {
    **{0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1"},
    **{10: "<u8", 11: "<i8", 12: "<f8"},
}
LEAST_KEY, LEAST_TENSOR = 13, 24  # minimum bytes of a key with its value, and of a tensor's entry
MOST_DIMENSIONS = 4
MOST_HEADER = 100_000_000  # bytes; the longest vocabularies take some 20 million
ALIGNMENT, MOST_ALIGNMENT = 32, 1 << 20


@dataclass(frozen=True)
class Packed:
    """The location of a tensor: `nbytes` bytes from `offset`; blocks are along its last axis."""

    type: TensorType
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Container:
    """A GGUF file's metadata, and the location of its tensors, which are not read yet.

    A float32 of the metadata is the decimal number that it was written for, such as 1e-6; arrays of numbers
    are NumPy's, those of strings lists.
    """

    file: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Packed]


def read(file: Path) -> Container:
    """The header of `file`. Raises CheckpointError if it is damaged, UnsupportedError for a newer version."""
    try:
        with reading(file), file.open("rb") as stream:
            size = file.stat().st_size
            cursor = Cursor(stream, size)
            tensors, keys = _counts(cursor)
            metadata: dict[str, Any] = {}
            for _ in range(keys):
                key = cursor.text("a key")
                if key in metadata:
                    raise ValueError(f"its key {shown(key)} appears twice")
                metadata[key] = _value(cursor, key)
            alignment = _alignment(metadata)
            entries: dict[str, Packed] = {}
            for _ in range(tensors):
                name, entry = _entry(cursor, alignment)
                if name in entries:
                    raise ValueError(f"tensor {shown(name)} appears twice")
                entries[name] = entry
    except ValueError as error:
        raise CheckpointError(f"{file} is not a GGUF file: {error}") from None
    except UnsupportedError as error:
        raise UnsupportedError(f"{file}: {error}") from None
    return Container(file, metadata, _placed(file, entries, -(-cursor.place // alignment) * alignment, size))


class Cursor:
    """A position in a file's header; a read beyond the end raises ValueError before memory is allocated."""

    def __init__(self, stream: BinaryIO, size: int):
        self.stream, self.place, self.size, self.most = stream, 0, size, min(size, MOST_HEADER)

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes."""
        self.check(count, what)
        data = self.stream.read(count)
        if len(data) != count:
            raise ValueError(f"it ends within {what}")
        self.place += count
        return data

    def check(self, count: int, what: str) -> None:
        """Raise ValueError unless `count` bytes remain and the header stays within its limit."""
        if count > self.size - self.place:
            raise ValueError(f"{what} takes {count:,} bytes, but {self.size - self.place:,} are left")
        if self.place + count > MOST_HEADER:
            raise ValueError(f"its header is longer than {MOST_HEADER:,} bytes")

    def integer(self, size: int, what: str) -> int:
        """The next unsigned number of `size` bytes."""
        return int.from_bytes(self.take(size, what), "little")

    def text(self, what: str) -> str:
        """The next string."""
        return self.texts(1, what)[0]

    def texts(self, count: int, what: str) -> list[str]:
        """The next strings; vocabularies have hundreds of thousands."""
        read, result = self.stream.read, []
        try:
            for _ in range(count):
                length = int.from_bytes(read(8), "little")
                if self.place + 8 + length > self.most:
                    self.check(8 + length, what)
                self.place += 8 + length
                result.append(read(length).decode())
        except UnicodeDecodeError:
            raise ValueError(f"{what} is not UTF-8") from None
        return result


def _counts(cursor: Cursor) -> tuple[int, int]:
    """The numbers of tensors and keys."""
    if cursor.take(4, "its first word") != MAGIC:
        raise ValueError("it does not begin with GGUF; other checkpoints are folders")
    version = cursor.integer(4, "its version")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        state = "big-endian" if swapped else f"of version {version}"
        raise UnsupportedError(f"it is {state}; supported are little-endian ones of version 2 or 3")
    tensors, keys = cursor.integer(8, "its size"), cursor.integer(8, "its size")
    cursor.check(tensors * LEAST_TENSOR + keys * LEAST_KEY, f"a table of {tensors:,} tensors, {keys:,} keys")
    return tensors, keys


def _value(cursor: Cursor, key: str) -> Any:
    what = f"the value of {shown(key)}"
    kind = cursor.integer(4, what)
    if kind == STRING:
        return cursor.text(what)
    if kind == ARRAY:
        return _array(cursor, what)
    if kind not in NUMBERS:
        raise ValueError(f"{what} is of type {kind}, expected 0 to 12")
    number = np.frombuffer(cursor.take(np.dtype(NUMBERS[kind]).itemsize, what), NUMBERS[kind])[0]
    if kind == BOOL:
        return bool(number)
    return float(str(number)) if number.dtype == np.float32 else number.item()


def _array(cursor: Cursor, what: str) -> np.ndarray | list[str]:
    kind, count = cursor.integer(4, what), cursor.integer(8, what)
    if kind == STRING:
        cursor.check(8 * count, what)
        return cursor.texts(count, what)
    if kind not in NUMBERS:
        raise ValueError(f"{what} is an array of type {kind}, expected numbers or strings")
    return np.frombuffer(cursor.take(np.dtype(NUMBERS[kind]).itemsize * count, what), NUMBERS[kind])


def _alignment(metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= MOST_ALIGNMENT or alignment & (alignment - 1):
        raise ValueError(f"general.alignment is {shown(alignment)}, expected a power of 2")
    return alignment


def _entry(cursor: Cursor, alignment: int) -> tuple[str, Packed]:
    """A tensor's name and its entry of the table; the offset counts from the start of the data."""
    name = cursor.text("a tensor's name")
    what = f"the entry of tensor {shown(name)}"
    dimensions = cursor.integer(4, what)
    if dimensions > MOST_DIMENSIONS:
        raise ValueError(
            f"tensor {shown(name)} has {dimensions} dimensions, expected up to {MOST_DIMENSIONS}"
        )
    shape = tuple(cursor.integer(8, what) for _ in range(dimensions))[
        ::-1
    ]  # stored from the last axis to the first
    kind, offset = cursor.integer(4, what), cursor.integer(8, what)
    if kind not in TYPES:
        known = ", ".join(one.name for one in TYPES.values())
        raise UnsupportedError(
            f"tensor {shown(name)} is of type {UNREAD.get(kind, f'number {kind}')}; supported are {known}"
        )
    if offset % alignment:
        raise ValueError(f"tensor {shown(name)} begins at {offset}, expected a multiple of {alignment}")
    type_ = TYPES[kind]
    row = shape[-1] if shape else 1
    if row % type_.elements:
        raise ValueError(
            f"tensor {shown(name)} of {type_.name} has rows of {row}, expected blocks of {type_.elements}"
        )
    return name, Packed(type_, shape, offset, math.prod(shape) // type_.elements * type_.nbytes)


def _placed(file: Path, entries: Mapping[str, Packed], start: int, size: int) -> dict[str, Packed]:
    """The tensors in the data from byte `start` on. Raises CheckpointError for overlaps and missing bytes."""
    last, before = 0, ""
    for name, entry in sorted(entries.items(), key=lambda item: item[1].offset):
        if entry.nbytes and entry.offset < last:
            raise CheckpointError(f"{file}: tensor {shown(name)} begins within tensor {shown(before)}")
        if entry.nbytes:
            last, before = entry.offset + entry.nbytes, name
    if last and start + last > size:
        raise CheckpointError(
            f"{file} is truncated: {size} bytes, its header promises {start + last}; copy it again"
        )
    return {
        name: Packed(entry.type, entry.shape, start + entry.offset, entry.nbytes)
        for name, entry in entries.items()
    }
