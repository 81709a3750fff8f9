"""The integers and scales of a quantised checkpoint, stored without another rounding.

The layout is the one that runtimes fuse with a product: inputs first; four bits from 0 to 15 with a zero
point, or eight bits with or without one; in blocks of a power of two. A larger block becomes several blocks
with the same scale.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from txexport.formats.blocks import Blocks
from txexport.formats.float32 import FLOAT
from txexport.formats.int4 import UINT4
from txexport.formats.int8 import INT8, by_rows, rounded_product
from txexport.formats.number_format import NumberType, Part, Rounding, Use, Value, Values, check_use, packed

UINT8 = NumberType(onnx="UINT8", safetensors="U8", numpy="u1", bits=8)
INT64 = NumberType(onnx="INT64", safetensors="I64", numpy="<i8", bits=64)
FUSED = (256, 128, 64, 32, 16)  # block sizes with a fast product in runtimes
WHOLE = 128  # block size if an output has one scale
MIDDLE = 8  # added to signed four-bit integers


@dataclass(frozen=True)
class StoredIntegers:
    """A matrix (out,in) of integers of `type`, stored as (in,out), in blocks of `block` inputs.

    `zeros`, `minima` and `order` tell whether it has those of Blocks. With `rounds`, an output has one scale,
    and activations are rounded to int8, row by row. With `widened`, graphs compute the matrix as float32
    numbers, which runtimes do once, at load: ONNX Runtime multiplies blocks of eight bits either with
    activations rounded to int8, or 25 times as slowly as float32 numbers.
    """

    type: NumberType
    block: int
    zeros: bool = False
    minima: bool = False
    order: bool = False
    rounds: bool = False
    widened: bool = False

    relative = 1e-5
    private, lossless = True, True

    @property
    def name(self) -> str:
        """See NumberFormat."""
        parts = [self.type.onnx.lower(), "per output" if self.rounds else f"in blocks of {self.block}"]
        parts += [word for word in ("zeros", "minima", "order") if getattr(self, word)]
        return f"stored {', '.join(parts)}"

    @property
    def wide(self) -> "StoredIntegers":
        """The format with `widened`, if a runtime would round the activations of eight-bit products."""
        return replace(self, widened=self.type != UINT4 and not self.rounds)

    @property
    def rounding(self) -> Rounding | None:
        """See NumberFormat."""
        return by_rows if self.rounds else None

    def parts(self, shape: tuple[int, ...]) -> Mapping[str, Part]:
        """See NumberFormat."""
        outputs, inputs = shape
        blocks = (outputs,) if self.rounds else (-(-inputs // self.block), outputs)
        parts = {"": Part(self.type, (inputs, outputs)), "scale": Part(FLOAT, blocks)}
        if self.zeros:
            parts["zero"] = Part(self.type, blocks)
        if self.minima:
            parts["minimum"] = Part(FLOAT, blocks)
        if self.order:
            parts["order"] = Part(INT64, (inputs,))
        return parts

    def pack(self, blocks: Blocks) -> Iterator[tuple[str, np.ndarray]]:
        """The bytes of the parts, one after the other."""
        middle = MIDDLE if self.type == UINT4 and blocks.integers.dtype == np.int8 else 0
        yield "", self._integers(blocks.integers, middle)
        yield "scale", self._spread(blocks, blocks.scales).astype("<f4")
        if self.zeros:
            zeros = np.zeros_like(blocks.scales, np.int16) if blocks.zeros is None else blocks.zeros
            yield "zero", self._integers(self._spread(blocks, zeros).T, middle)
        if self.minima:
            assert blocks.minima is not None
            yield "minimum", self._spread(blocks, blocks.minima).astype("<f4")
        if self.order:
            assert blocks.order is not None
            yield "order", blocks.order.astype("<i8")

    def _integers(self, integers: np.ndarray, middle: int) -> np.ndarray:
        """Integers or zeros (out,...), plus `middle`, in the stored layout (...,out)."""
        turned = np.ascontiguousarray(integers.T).astype(np.int16) + middle
        numbers = turned.astype(self.type.numpy)
        return packed(numbers) if self.type == UINT4 else numbers

    def _spread(self, blocks: Blocks, numbers: np.ndarray) -> np.ndarray:
        """Values (out,blocks) of the checkpoint's blocks as (blocks,out) of ours; (out) with one scale."""
        if self.rounds:
            return numbers[:, 0]
        inputs = blocks.shape[1]
        block_indices = np.arange(0, inputs, self.block) // blocks.block
        return np.ascontiguousarray(numbers[:, block_indices].T)

    def encode(self, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
        """Not supported: integers are stored by `pack`, not made from rows."""
        raise NotImplementedError

    def decode(self, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Not supported: the checkpoint's Blocks have the numbers."""
        raise NotImplementedError

    def share(self, numbers: np.ndarray, kept: np.ndarray) -> float:
        """See NumberFormat: no error is allowed."""
        return 0.0 if np.array_equal(numbers, kept) else np.inf

    def stand(self, op: Any, name: str, parts: Values, use: Use) -> Values:
        """See NumberFormat."""
        check_use(self.name, name, use, Use.PRODUCT)
        if self.rounds:
            return parts
        if self.widened:
            return {"": self._widened(op, name, parts)} | _beside(parts)
        values = [parts[part] for part in ("", "scale", "zero") if part in parts]
        numbers = op.DequantizeLinear(*values, axis=0, block_size=self.block, name=f"{name}.numbers")
        return {"": numbers} | _beside(parts)

    def _widened(self, op: Any, name: str, parts: Values) -> Value:
        """The dequantised matrix (in,out), in operators that runtimes fold at load."""

        def node(operator: str, part: str, *inputs: Value, **attributes: Any) -> Value:
            return getattr(op, operator)(*inputs, **attributes, name=f"{name}.{part}")

        first, step, block = (
            node("Constant", part, value=np.array(number))
            for part, number in (("first", 0), ("step", 1), ("size", self.block))
        )
        inputs = node("Gather", "inputs", node("Shape", "shape", parts[""]), first)
        blocks = node("Div", "blocks", node("Range", "places", first, inputs, step), block)  # (in)
        numbers = node("Cast", "integers", parts[""], to=1)
        if "zero" in parts:
            zeros = node("Gather", "zeros", parts["zero"], blocks)
            numbers = node("Sub", "steps", numbers, node("Cast", "wide_zeros", zeros, to=1))
        return node("Mul", "numbers", numbers, node("Gather", "scales", parts["scale"], blocks))

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """See NumberFormat."""
        if self.rounds:
            return rounded_product(op, x, matrix[""], matrix["scale"], bias)
        if self.order:
            x = op.Gather(x, matrix["order"], axis=-1, name="ordered")
        y = op.MatMul(x, matrix[""], name="products")
        if self.minima:
            blocked = op.Concat(op.Shape(x, end=-1), op.Constant(value_ints=[-1, self.block]), axis=0)
            sums = op.ReduceSum(op.Reshape(x, blocked), op.Constant(value_ints=[-1]), keepdims=0, name="sums")
            y = op.Sub(y, op.MatMul(sums, matrix["minimum"]), name="products")
        return y if bias is None else op.Add(y, bias)

    def lookup(self, op: Any, ids: Value, table: Values) -> Value:
        """Not reached: `stand` refuses this use."""
        raise NotImplementedError


def _beside(parts: Values) -> dict[str, Value]:
    """The inputs of a product other than the integers of blocks."""
    return {part: parts[part] for part in ("minimum", "order") if part in parts}


def stored_integers(blocks: Blocks, rounds: bool) -> StoredIntegers | None:
    """The format of a checkpoint's integers; with `rounds`, activations are to be rounded before products.

    None if runtimes have no format for them.
    """
    inputs = blocks.shape[1]
    one_scale = blocks.block >= inputs
    plain = blocks.zeros is None and blocks.minima is None and blocks.order is None
    if rounds and one_scale and plain and blocks.integers.dtype == np.int8:
        return StoredIntegers(INT8, inputs, rounds=True)
    block = WHOLE if one_scale else next((size for size in FUSED if blocks.block % size == 0), None)
    if block is None or (blocks.minima is not None and inputs % block):
        return None
    zeros = 0 if blocks.zeros is None else blocks.zeros
    signed = blocks.integers.dtype == np.int8
    low, high = (-MIDDLE, MIDDLE - 1) if signed else (0, 2 * MIDDLE - 1)
    small = blocks.bits <= 4 and np.min(zeros) >= low and np.max(zeros) <= high
    kind = UINT4 if small else INT8 if signed else UINT8
    has_zeros = blocks.zeros is not None or (kind == UINT4 and signed)
    return StoredIntegers(kind, block, has_zeros, blocks.minima is not None, blocks.order is not None)
