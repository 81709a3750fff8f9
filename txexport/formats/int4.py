"""int4: integers from 0 to 15 in blocks along the inputs, each block with a scale and a zero point.

The search finds the scale and zero of least squared error. Blocked DequantizeLinear needs opset 21; ONNX
Runtime fuses it with a product if nothing else reads its output.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from txexport.formats.float32 import FLOAT
from txexport.formats.number_format import NumberType, Part, Use, Value, Values, check_use, packed, unpacked

UINT4 = NumberType(onnx="UINT4", safetensors="U8", numpy="u1", bits=4)
LARGEST = 15
SHRUNK = [np.float32(1 - 0.04 * step) for step in range(1, 11)]  # tried spans, relative to the block's own
AT_ONCE = 1 << 18  # numbers searched at a time: they fit a processor's cache

Found: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]  # integers (n,in), zeros and scales (n,blocks)
Finder: TypeAlias = Callable[[np.ndarray, int], Found]


class Int4:
    """A matrix (out,in) in blocks of `block` inputs, a power of two from 16 to 256; stored as (in,out)."""

    relative = 1e-5
    private, lossless = True, False
    rounding = None
    most_steps = 0.5001  # the largest root mean square error of a block, in steps

    def __init__(self, block: int):
        self.block, self.name = block, f"int4 in blocks of {block}"

    def parts(self, shape: tuple[int, ...]) -> Mapping[str, Part]:
        """See NumberFormat."""
        blocks = (-(-shape[1] // self.block), shape[0])
        return {"": Part(UINT4, shape[::-1]), "zero": Part(UINT4, blocks), "scale": Part(FLOAT, blocks)}

    def encode(self, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
        """See NumberFormat; all integers are in memory, one a byte."""
        parts = self.parts(shape)
        turned = {
            name: np.empty(part.shape, "<f4" if name == "scale" else "u1") for name, part in parts.items()
        }
        find, done = self.finder(shape), 0
        for block in rows:
            for some in pieces(block):
                for name, numbers in zip(parts, find(some, done), strict=True):
                    turned[name][:, done : done + len(some)] = numbers.T
                done += len(some)
        yield "", packed(turned[""])
        yield "zero", packed(turned["zero"])
        yield "scale", turned["scale"]

    def finder(self, shape: tuple[int, ...]) -> Finder:
        """The function that finds integers, zeros and scales of rows from a given row on, as `searched`."""
        return lambda rows, first: searched(rows, self.block)

    def decode(self, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """See NumberFormat."""
        parts_of_shape, inputs = self.parts(shape), shape[1]
        integers, zeros = (unpacked(parts[name], parts_of_shape[name].shape) for name in ("", "zero"))

        def spread(of_blocks: np.ndarray) -> np.ndarray:
            return np.repeat(of_blocks, self.block, axis=0)[:inputs]

        numbers = (integers.astype(np.float32) - spread(zeros)) * spread(parts["scale"])
        return np.ascontiguousarray(numbers.T, np.float32)

    def share(self, numbers: np.ndarray, kept: np.ndarray) -> float:
        """See NumberFormat: half a step on average in each block, whose span including 0 has 15 steps."""
        short = -numbers.shape[1] % self.block
        wide, found = (
            np.pad(one.astype(np.float64), ((0, 0), (0, short))).reshape(len(one), -1, self.block)
            for one in (numbers, kept)
        )
        step = (wide.max(axis=2).clip(0) - wide.min(axis=2).clip(None, 0)) / LARGEST
        real = np.minimum(self.block, numbers.shape[1] - self.block * np.arange(wide.shape[1]))
        off = np.sqrt(((found - wide) ** 2).sum(axis=2) / real)
        return float((off / np.where(step > 0, self.most_steps * step, 1)).max())

    def stand(self, op: Any, name: str, parts: Values, use: Use) -> Values:
        """See NumberFormat; int4 values cannot be passed into a function called by a function."""
        check_use(self.name, name, use, Use.PRODUCT)
        values = (parts[part] for part in ("", "scale", "zero"))
        return {"": op.DequantizeLinear(*values, axis=0, block_size=self.block, name=f"{name}.numbers")}

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """See NumberFormat."""
        y = op.MatMul(x, matrix[""], name="products")
        return y if bias is None else op.Add(y, bias)

    def lookup(self, op: Any, ids: Value, table: Values) -> Value:
        """Not reached: `stand` refuses this use."""
        raise NotImplementedError


def in_blocks(block: int, inputs: int) -> Int4:
    """int4 in blocks of that size, or of the next smaller one that divides the inputs, as OpenVINO requires.

    If none does, the last block is short.
    """
    return next((BLOCKS[size] for size in BLOCKS if size <= block and inputs % size == 0), BLOCKS[block])


def pieces(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Split rows (n,in) into pieces that are searched at once."""
    at_once = max(1, AT_ONCE // rows.shape[1])
    for first in range(0, len(rows), at_once):
        yield rows[first : first + at_once]


def searched(rows: np.ndarray, block: int) -> Found:
    """Rows (n,in) as integers (n,in), zeros and scales (n,blocks) of the least squared error.

    Spans from 1 down to 0.6 of the block's own are tried, each with the best scale for its integers. Sums are
    computed in a fixed order, so that every processor finds the same.
    """
    outputs, inputs = rows.shape
    blocks = -(-inputs // block)
    short = blocks * block - inputs
    numbers = np.pad(rows, ((0, 0), (0, short))) if short else rows  # zeros, which add no error
    numbers = numbers.reshape(outputs, blocks, block).transpose(2, 0, 1)  # (block, n, blocks)
    numbers = np.ascontiguousarray(numbers, np.float32)
    low, high = np.minimum(numbers.min(axis=0), 0), np.maximum(numbers.max(axis=0), 0)
    best, *found = _tried(numbers, low, high)
    for share in SHRUNK:
        error, *other = _tried(numbers, low * share, high * share)
        better = error < best
        best = np.where(better, error, best)
        found = [np.where(better, new, old) for new, old in zip(other, found, strict=True)]
    first, zeros, scales = found
    integers = _integers(numbers, first, zeros)
    by_rows = integers.transpose(1, 2, 0).reshape(outputs, blocks * block)[:, :inputs]
    return by_rows.astype(np.uint8), zeros.astype(np.uint8), scales


def _integers(numbers: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Numbers (block,n,blocks) rounded to integers."""
    integers: np.ndarray = numbers / scale
    np.rint(integers, out=integers)
    integers += zero
    return integers.clip(0, LARGEST, out=integers)


def _tried(
    numbers: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For spans (n,blocks): the squared error, the scale used for rounding, the zero, and the best scale."""
    first = (high - low) / np.float32(LARGEST)
    first = np.where(first > 0, first, np.float32(1))
    zero = np.rint(-low / first).clip(0, LARGEST)
    steps = _integers(numbers, first, zero)
    steps -= zero
    products, squares, error = np.zeros_like(first), np.zeros_like(first), np.zeros_like(first)
    for number, step in zip(numbers, steps, strict=True):
        products += number * step
        squares += step * step
    scale = products / np.where(squares > 0, squares, np.float32(1))
    scale = np.where(scale > 0, scale, first)
    steps *= scale
    steps -= numbers
    steps *= steps
    for square in steps:
        error += square
    return error, first, zero, scale


BLOCKS = {size: Int4(size) for size in (128, 64, 32, 16)}
