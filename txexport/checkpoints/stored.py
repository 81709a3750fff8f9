"""A tensor as it lies in a file of weights, and its bytes as numbers."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txexport.errors import CheckpointError, reason

FLOATS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
INTEGERS = {
    **{"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8},
    **{"U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8},
    **{"F8_E4M3": np.uint8, "F8_E5M2": np.uint8, "F8_E8M0": np.uint8},  # as codes
}
SIZES = {dtype: np.dtype(kind).itemsize for dtype, kind in (FLOATS | INTEGERS).items()}
CHUNK = 16 << 20  # bytes read at a time


@dataclass(frozen=True)
class Stored:
    """One tensor where it lies: `nbytes` bytes from `offset` of `file`."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int

    def array(self, name: str) -> np.ndarray:
        """All of it: floats as float32, integers as they are, float8 as codes; `name` is for messages.

        Raises CheckpointError where it cannot be read.
        """
        kind = (FLOATS | INTEGERS)[self.dtype]
        with reading(self.file), self.file.open("rb") as file:
            file.seek(self.offset)
            numbers = np.fromfile(file, kind, math.prod(self.shape))
        if numbers.size != math.prod(self.shape):
            raise CheckpointError(f"{self.file.name} ends within tensor '{name}'; copy it again")
        return widened(numbers, self.dtype).reshape(self.shape)


def widened(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Floats as float32, half and bfloat16 exactly, float64 rounded; integers as they are."""
    if dtype not in FLOATS:
        return numbers
    if dtype == "BF16":
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):  # a double beyond float32 is infinite
        return numbers.astype(np.float32, copy=False)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise CheckpointError, which names `path`, where the system cannot read it."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {reason(error)}") from None
