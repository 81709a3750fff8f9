"""A tensor in a file of weights, and the conversion of its bytes to numbers."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from txexport.errors import CheckpointError, UnsupportedError, reason

FLOATS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
INTEGERS = {
    **{"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8},
    **{"U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8},
    **{"F8_E4M3": np.uint8, "F8_E5M2": np.uint8, "F8_E8M0": np.uint8},  # read as codes
}
SIZES = {dtype: np.dtype(kind).itemsize for dtype, kind in (FLOATS | INTEGERS).items()}
CHUNK = 16 << 20  # bytes read at a time


@dataclass(frozen=True)
class Stored:
    """The location of a tensor: `nbytes` bytes of numbers from `offset` of `file`.

    Numbers are contiguous, or have `strides`: steps along each axis, counted in numbers.
    """

    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    strides: tuple[int, ...] | None = None
    big_endian: bool = False

    def at(self, number: int) -> "Stored":
        """The part at index `number` of the first axis."""
        each, strides = self.nbytes // self.shape[0], self.strides
        step = each if strides is None else strides[0] * SIZES[self.dtype]
        inner = None if strides is None else strides[1:]
        place = self.offset + number * step
        return replace(self, shape=self.shape[1:], offset=place, nbytes=each, strides=inner)

    def array(self, name: str) -> np.ndarray:
        """All numbers: floats as float32, integers unchanged, float8 as codes; `name` is for messages.

        Raises CheckpointError if it cannot be read.
        """
        return widened(self.unwidened(name), self.dtype)

    def unwidened(self, name: str) -> np.ndarray:
        """All numbers in the type that they are stored in, bfloat16 as uint16. Raises as `array`."""
        if self.strides is None:
            with self._opened() as file:
                return self._next(file, math.prod(self.shape), name).reshape(self.shape)
        span = 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        with self._opened() as file:
            numbers = self._next(file, span, name)
        strides = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers, self.shape, strides).copy()

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """Yield float32 rows, a few megabytes at a time.

        Raises CheckpointError if it cannot be read, UnsupportedError for a type that is no float.
        """
        if self.dtype not in FLOATS:
            raise UnsupportedError(
                f"tensor '{name}' is stored as {self.dtype}; supported are {', '.join(FLOATS)}"
            )
        if 0 in self.shape:
            raise CheckpointError(f"tensor '{name}' has the shape {self.shape}, and no values")
        shape = self.shape or (1,)
        row = math.prod(shape[1:])
        step = max(1, CHUNK // max(1, row * SIZES["F32"]))  # the same number of rows in a block for all types
        if self.strides is not None:
            values = self.array(name)
            yield from (values[first : first + step] for first in range(0, shape[0], step))
            return
        with self._opened() as file:
            for first in range(0, shape[0], step):
                count = min(step, shape[0] - first)
                block = widened(self._next(file, count * row, name), self.dtype)
                yield block.reshape(count, *shape[1:]) if self.shape else block.reshape(())

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with reading(self.file), self.file.open("rb") as file:
            file.seek(self.offset)
            yield file

    def _next(self, file: BinaryIO, count: int, name: str) -> np.ndarray:
        kind = np.dtype((FLOATS | INTEGERS)[self.dtype])
        numbers = np.fromfile(file, kind.newbyteorder(">") if self.big_endian else kind, count)
        if numbers.size != count:
            raise CheckpointError(f"{self.file.name} ends within tensor '{name}'; copy it again")
        return numbers.astype(kind, copy=False)


def widened(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Floats as float32, half and bfloat16 exactly, float64 rounded; integers as they are."""
    if dtype not in FLOATS:
        return numbers
    if dtype == "BF16":
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite
        return numbers.astype(np.float32, copy=False)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise CheckpointError with `path` for an OSError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {reason(error)}") from None
