"""Number formats: how a parameter is stored, and the graph nodes that read it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Any, Protocol

import numpy as np

from txexport.errors import GraphError

Value = Any  # a value of a graph
Values = Mapping[str, Value]
Rounding = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class UnstorableError(ValueError):
    """A format cannot represent a number; the message continues after a parameter's name."""


class Use(StrEnum):
    """The use of a parameter in a component; a matrix may have several uses."""

    WHOLE = "whole"  # any operator reads it: a norm's scale, a bias, a kernel, a small table
    PRODUCT = "product"  # vectors are multiplied with the matrix (out,in)
    LOOKUP = "lookup"  # rows of the table are looked up


@dataclass(frozen=True)
class NumberType:
    """A type of stored numbers: its names in ONNX, safetensors and NumPy, and its bits.

    Types of less than a byte are packed, the first number in the lowest bits; NumPy then reads bytes.
    """

    onnx: str
    safetensors: str
    numpy: str
    bits: int


@dataclass(frozen=True)
class Part:
    """Numbers of one type, contiguous in the weights file: a parameter, or part of one."""

    type: NumberType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The length in the file, in bytes."""
        return -(-prod(self.shape) * self.type.bits // 8)

    @property
    def place(self) -> tuple[bool, int]:
        """The sort key of alignment: bytes first, then the widest type; offsets are multiples of the size."""
        return self.type.bits > 8, -self.type.bits

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape that NumPy and safetensors read; packed numbers are a row of bytes."""
        return self.shape if self.type.bits % 8 == 0 else (self.nbytes,)


class NumberFormat(Protocol):
    """A way to store and multiply parameters; one object is one format, with a `name` for users.

    - `relative`: the relative rounding error of an output if products are computed in this format.
    - `private`: every product needs initialisers of its own, possibly over the same bytes, to be fast or to
      load at all.
    - `lossless`: every number is kept.
    - `rounding`: for products that round their input x (..., in) float32. It returns the rounded x, and for
      each number the error that float32's own rounding may add: a step at a tie, 0 elsewhere.

    Nodes are written by `op`, which has a method for each standard operator; `name` is that of the output.
    """

    @property
    def name(self) -> str:
        """See above."""
        ...

    @property
    def relative(self) -> float:
        """See above."""
        ...

    @property
    def private(self) -> bool:
        """See above."""
        ...

    @property
    def lossless(self) -> bool:
        """See above."""
        ...

    @property
    def rounding(self) -> Rounding | None:
        """See above."""
        ...

    def parts(self, shape: tuple[int, ...]) -> Mapping[str, Part]:
        """The stored parts of a parameter of `shape`, in order; part "" has the parameter's own name."""
        ...

    def encode(self, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the bytes of each part of float32 `rows` in order, in blocks, one part after the other."""
        ...

    def decode(self, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The float32 numbers that graphs compute with, of a parameter of `shape` stored as these parts."""
        ...

    def share(self, numbers: np.ndarray, kept: np.ndarray) -> float:
        """The largest error of the stored numbers `kept`, relative to the error allowed: at most 1.

        The bound depends on the numbers alone, not on the way in which the format chooses what it stores.
        """
        ...

    def stand(self, op: Any, name: str, parts: Values, use: Use) -> Values:
        """Write nodes of the main graph for a parameter `name`; return the values that functions receive.

        Raises GraphError for a use that the format does not support.
        """
        ...

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """Write nodes within a function: x (..., in) and the received values of a matrix -> (..., out)."""
        ...

    def lookup(self, op: Any, ids: Value, table: Values) -> Value:
        """Write nodes within a function: ids (...) and the received values of a table (V,W) -> (..., W)."""
        ...


def part_name(parameter: str, part: str) -> str:
    """The name of a parameter's part, in files and in graphs."""
    return f"{parameter}.{part}" if part else parameter


def check_use(number_format: str, name: str, use: Use, *known: Use) -> None:
    """Raise GraphError for a use of the parameter `name` that its format does not support."""
    if use not in known:
        what = " and ".join({Use.PRODUCT: "products", Use.LOOKUP: "lookups"}[one] for one in known)
        raise GraphError(f"{name} is stored as {number_format}, which supports {what} only")


def packed(integers: np.ndarray) -> np.ndarray:
    """Integers from 0 to 15, two to a byte, the first in its lower half."""
    flat = integers.reshape(-1)
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    return flat[::2] | flat[1::2] << 4


def unpacked(bytes_: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse of `packed`, for that shape."""
    flat = np.stack([bytes_ & 15, bytes_ >> 4], axis=-1).reshape(-1)
    return flat[: prod(shape)].reshape(shape)


def kept(number_format: NumberFormat, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The float32 values of rows after rounding to the format: the numbers that graphs compute with."""
    return decoded(number_format, number_format.encode(rows, shape), shape)


def decoded(
    number_format: NumberFormat, encoded: Iterable[tuple[str, np.ndarray]], shape: tuple[int, ...]
) -> np.ndarray:
    """The float32 numbers of the parts that `encode` returned."""
    blocks: dict[str, list[np.ndarray]] = {}
    for part, block in encoded:
        blocks.setdefault(part, []).append(block)
    stored = number_format.parts(shape)
    parts = {
        name: np.concatenate([block.reshape(-1) for block in some]).reshape(stored[name].stored_shape)
        for name, some in blocks.items()
    }
    return number_format.decode(parts, shape)


def nbytes(number_format: NumberFormat, shape: tuple[int, ...]) -> int:
    """The number of bytes stored for a parameter of that shape."""
    return sum(part.nbytes for part in number_format.parts(shape).values())
