"""Number formats: how a parameter is stored, and the graph nodes that read it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Any, Protocol

import numpy as np

from txexport.errors import GraphError

Value = Any  # of a graph
Values = Mapping[str, Value]
Rounding = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class UnstorableError(ValueError):
    """A format has no number for one that it is given; the text goes on after a parameter's name."""


class Use(StrEnum):
    """The use of a parameter in a component; a matrix may have several."""

    WHOLE = "whole"  # any operator reads its numbers: a norm's scale, a bias, a kernel, a small table
    PRODUCT = "product"  # vectors are multiplied with the matrix (out,in)
    LOOKUP = "lookup"  # rows are read out of the table


@dataclass(frozen=True)
class NumberType:
    """A type of stored numbers in the words of ONNX, safetensors and NumPy, and the bits of one.

    Those that fill no byte are packed, the first in the lowest bits; what NumPy reads are then bytes.
    """

    onnx: str
    safetensors: str
    numpy: str
    bits: int


@dataclass(frozen=True)
class Part:
    """Numbers of one type that lie together in the weights file: a parameter, or part of one."""

    type: NumberType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The length in the file, in bytes."""
        return -(-prod(self.shape) * self.type.bits // 8)

    @property
    def place(self) -> tuple[bool, int]:
        """The sort key of alignment: bytes first, then the widest; offsets are multiples of the size."""
        return self.type.bits > 8, -self.type.bits

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape that NumPy and safetensors read: of packed numbers, bytes in a row."""
        return self.shape if self.type.bits % 8 == 0 else (self.nbytes,)


class NumberFormat(Protocol):
    """A way to store and multiply parameters. One object is one format, known to users as `name`.

    `relative` is what rounding may leave of an output, in its own size, where products are computed so.
    A `private` one is fast where every parameter has initialisers of its own, over the same bytes or not; a
    `lossless` one keeps every number. Where products round what they are given, x (..., in) float32,
    `rounding` gives what they multiply with in its place, and how far float32's own rounding may take each
    number of that: a step at what lies halfway, 0 elsewhere.
    Nodes are written by `op`, which has a method for each standard operator, with `name` for what comes out.
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
        """The bytes of the parts, each in blocks and one part after the other, of float32 rows in order."""
        ...

    def decode(self, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The numbers that these parts keep of a parameter of `shape`: float32, what graphs compute with."""
        ...

    def share(self, numbers: np.ndarray, kept: np.ndarray) -> float:
        """The largest error of what is `kept` of a parameter, in what may be left of it: 1 at most.

        It follows from the numbers alone, and not from how the format finds what it stores.
        """
        ...

    def stand(self, op: Any, name: str, parts: Values, use: Use) -> Values:
        """Nodes of the main graph for a parameter called `name`: the values that functions receive of it.

        Raises GraphError for a use that this format has not.
        """
        ...

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """Nodes within a function: x (..., in) and what it received of a matrix -> (..., out)."""
        ...

    def lookup(self, op: Any, ids: Value, table: Values) -> Value:
        """Nodes within a function: ids (...) and what it received of a table (V,W) -> rows (..., W)."""
        ...


def part_name(parameter: str, part: str) -> str:
    """The name of a parameter's part, in files and in graphs."""
    return f"{parameter}.{part}" if part else parameter


def check_use(number_format: str, name: str, use: Use, *known: Use) -> None:
    """Raise GraphError for a use of the parameter `name` that its format has not."""
    if use not in known:
        what = " and ".join({Use.PRODUCT: "products", Use.LOOKUP: "rows"}[one] for one in known)
        raise GraphError(f"{name} is stored as {number_format}, of which only {what} can be computed")


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
    """The numbers that what `encode` gave stands for."""
    blocks: dict[str, list[np.ndarray]] = {}
    for part, block in encoded:
        blocks.setdefault(part, []).append(block)
    own = number_format.parts(shape)
    parts = {
        name: np.concatenate([block.reshape(-1) for block in some]).reshape(own[name].stored_shape)
        for name, some in blocks.items()
    }
    return number_format.decode(parts, shape)


def nbytes(number_format: NumberFormat, shape: tuple[int, ...]) -> int:
    """The number of bytes stored for a parameter of that shape."""
    return sum(part.nbytes for part in number_format.parts(shape).values())
