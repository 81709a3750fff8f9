"""int8: a scale for every output; activations are rounded row by row, scaled by each row's largest number.

The result of a row does not depend on the other rows of the batch. The scheme is that of vLLM's W8A8 with
dynamic tokens, torchao's Int8DynamicActivationInt8Weight and CTranslate2's int8.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from txexport.formats.float32 import FLOAT
from txexport.formats.number_format import NumberType, Part, Rounding, Use, Value, Values, check_use

INT8 = NumberType(onnx="INT8", safetensors="I8", numpy="i1", bits=8)
LARGEST = 127
UNSIGNED_ZERO = 128
TINY = 1e-30  # the least scale, so that a row of zeros is not divided by 0
LAST_BITS = 8 * 2.0**-23  # the relative error of some divisions and products in float32


def _rounded(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round to integers; the second result is 1 for numbers so close to a tie that either may come out."""
    integers = np.rint(steps)
    halfway = np.abs(np.abs(steps - integers) - 0.5) <= np.abs(steps) * LAST_BITS
    return integers, halfway.astype(np.float64)


def by_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See NumberFormat.rounding: 127 steps up to the largest absolute value of each row."""
    step = np.maximum(np.abs(x).max(axis=-1, keepdims=True), TINY).astype(np.float64) / LARGEST
    integers, halfway = _rounded(x / step)
    return integers * step, halfway * step


def about_middles(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See NumberFormat.rounding: 254 steps from each row's smallest number to its largest."""
    high, low = x.max(axis=-1, keepdims=True), x.min(axis=-1, keepdims=True)
    middle = (high + low) * np.float32(0.5)
    step = np.maximum(high - middle, TINY).astype(np.float64) / LARGEST
    integers, halfway = _rounded((x - middle) / step)
    return integers * step + middle, halfway * step


def at_once(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See NumberFormat.rounding: 255 steps from the smallest to the largest number, 0 included and exact.

    Numbers are clipped to the first and the last step, whose own rounding may also be a tie.
    """
    low, high = float(x.min(initial=0.0)), float(x.max(initial=0.0))
    step = (high - low) / 255 or 1.0
    integers, halfway = _rounded(x / step)
    zero = np.rint(-low / step)
    ends = (integers + zero <= 0) | (integers + zero >= 255)
    return (integers + zero).clip(0, 255) * step - zero * step, np.maximum(halfway, ends) * step


class Int8Rows:
    """A matrix (out,in), or a table (V,W), stored row by row, with a scale for each row."""

    name = "int8"
    relative = 1e-5
    private, lossless = False, False

    @property
    def rounding(self) -> Rounding:
        """See NumberFormat."""
        return by_rows

    def parts(self, shape: tuple[int, ...]) -> Mapping[str, Part]:
        """See NumberFormat."""
        return {"": Part(INT8, shape), "scale": Part(FLOAT, shape[:1])}

    def encode(self, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
        """See NumberFormat."""
        scales = []
        for block in rows:
            integers, scale = quantized(block)
            scales.append(scale)
            yield "", integers
        yield "scale", np.concatenate(scales)

    def decode(self, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """See NumberFormat."""
        numbers: np.ndarray = parts[""].astype(np.float32) * parts["scale"][:, None]
        return numbers

    def share(self, numbers: np.ndarray, kept: np.ndarray) -> float:
        """See NumberFormat: half a step, 127 of which are a row's largest number, and float32's rounding."""
        wide = numbers.astype(np.float64)
        step = np.abs(wide).max(axis=1, keepdims=True) / LARGEST
        allowed = np.where(step > 0, 0.5001 * step, 1)
        return float((np.abs(kept - wide) / allowed).max())

    def stand(self, op: Any, name: str, parts: Values, use: Use) -> Values:
        """See NumberFormat."""
        check_use(self.name, name, use, Use.PRODUCT, Use.LOOKUP)
        return parts

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """See NumberFormat."""
        return rounded_product(op, x, op.Transpose(matrix[""], perm=[1, 0]), matrix["scale"], bias)

    def lookup(self, op: Any, ids: Value, table: Values) -> Value:
        """See NumberFormat."""
        rows = op.Cast(op.Gather(table[""], ids), to=1, name="integers")  # (..., W) as float32
        scale = op.Unsqueeze(op.Gather(table["scale"], ids), op.Constant(value_ints=[-1]))
        return op.Mul(rows, scale, name="rows")


class Int8Turned(Int8Rows):
    """A matrix (out,in) stored as (in,out), the layout of MatMul.

    On processors without VNNI, ONNX Runtime converts the weight of each product, and fails at a second one of
    the same name.
    """

    private = True

    def parts(self, shape: tuple[int, ...]) -> Mapping[str, Part]:
        """See NumberFormat."""
        return {"": Part(INT8, shape[::-1]), "scale": Part(FLOAT, shape[:1])}

    def encode(self, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
        """See NumberFormat; all integers are in memory."""
        turned, scales, done = np.empty(shape[::-1], np.int8), [], 0
        for block in rows:
            integers, scale = quantized(block)
            turned[:, done : done + len(block)] = integers.T
            scales.append(scale)
            done += len(block)
        yield "", turned
        yield "scale", np.concatenate(scales)

    def decode(self, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """See NumberFormat."""
        return super().decode({**parts, "": parts[""].T}, shape)

    def stand(self, op: Any, name: str, parts: Values, use: Use) -> Values:
        """See NumberFormat."""
        check_use(self.name, name, use, Use.PRODUCT)
        return parts


class Int8InOut(Int8Turned):
    """A turned matrix with a scale for every output. `others` are its parts but numbers and scale."""

    name = "int8 (in, out)"
    others: tuple[str, ...] = ()

    def prepare(self, op: Any, x: Value, signed: bool = True) -> dict[str, Value]:
        """x (..., in), rounded by rows for products: `steps` in 8 bits, and what `finish` needs."""
        largest = _of_rows(op, op.ReduceMax, op.Abs(x), "largest")
        return {"steps": _steps(op, x, largest, signed), "largest": largest}

    def finish(self, op: Any, y: Value, rows: Values, others: Values) -> Value:
        """The product of x, from that of its steps; `others` are the matrix's parts but numbers and scale."""
        return op.Mul(y, rows["largest"], name="products")

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """See NumberFormat."""
        rows = self.prepare(op, x)
        y = self.finish(op, product_of_steps(op, rows["steps"], matrix), rows, matrix)
        return y if bias is None else op.Add(y, bias)


class Int8Centred(Int8InOut):
    """As Int8InOut, with activations quantised around each row's mid-range.

    Rows on one side of 0, as after GELU, or with one large number, then have half as large steps. The
    mid-range times the `sums` of each output's weights is added to the product: a cost for every output, and
    a gain for every input.
    """

    name = "int8, centred rows"
    others = ("sums",)

    @property
    def rounding(self) -> Rounding:
        """See NumberFormat."""
        return about_middles

    def parts(self, shape: tuple[int, ...]) -> Mapping[str, Part]:
        """See NumberFormat."""
        return {**super().parts(shape), "sums": Part(FLOAT, shape[:1])}

    def encode(self, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
        """See NumberFormat."""
        parts = dict(super().encode(rows, shape))
        yield from parts.items()
        yield "sums", parts[""].sum(axis=0, dtype=np.int32).astype(np.float32) * parts["scale"]

    def prepare(self, op: Any, x: Value, signed: bool = True) -> dict[str, Value]:
        """See Int8InOut."""
        high, low = _of_rows(op, op.ReduceMax, x, "high"), _of_rows(op, op.ReduceMin, x, "low")  # (..., 1)
        middle = op.Mul(op.Add(high, low), op.Constant(value_float=0.5), name="middle")
        within, largest = op.Sub(x, middle, name="centred"), op.Sub(high, middle, name="largest")
        return {"steps": _steps(op, within, largest, signed), "largest": largest, "middle": middle}

    def finish(self, op: Any, y: Value, rows: Values, others: Values) -> Value:
        """See Int8InOut."""
        taken = op.Mul(rows["middle"], others["sums"], name="taken")  # (..., out)
        return op.Add(super().finish(op, y, rows, others), taken)


def quantized(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n,in) as int8 from -127 to 127, and the scale (n) of each; the same on every processor."""
    scale = np.abs(rows).max(axis=1) / np.float32(LARGEST)
    scale[scale == 0] = 1
    return np.rint(rows / scale[:, None]).clip(-LARGEST, LARGEST).astype(np.int8), scale


def rounded_product(op: Any, x: Value, integers: Value, scale: Value, bias: Value | None) -> Value:
    """x (..., in) rounded to int8 by rows, times integers (in,out) of `scale` (out) -> (..., out)."""
    return INT8_IN_OUT.product(op, x, {"": integers, "scale": scale}, bias)


def _of_rows(op: Any, reduce: Callable[..., Value], x: Value, name: str) -> Value:
    """A reduction of each row of x (..., in) -> (..., 1)."""
    first, one, last = (op.Constant(value_ints=[number]) for number in (0, 1, -1))
    reduced = reduce(x, last, keepdims=1, name=name)
    return op.Slice(reduced, first, one, last, name=name)  # ONNX Runtime returns (0, in) if there are no rows


def _steps(op: Any, x: Value, largest: Value, signed: bool) -> Value:
    """x (..., in) with absolute values of at most `largest` (..., 1), in 8 bits.

    A row is divided by `largest` before the product and multiplied by it afterwards, so that the scale of the
    rounding is a constant: runtimes then multiply integers.
    """
    within = op.Div(x, op.Max(largest, op.Constant(value_float=TINY)), name="within")
    return op.QuantizeLinear(within, *_step(op, signed), name="steps")


def product_of_steps(op: Any, steps: Value, matrix: Values, signed: bool = True) -> Value:
    """Rounded rows (..., in) times a matrix (in,out) -> (..., out).

    ONNX Runtime makes `signed` steps unsigned where nothing is between their rounding and the product.
    """
    rounded = op.DequantizeLinear(steps, *_step(op, signed), name="rounded")
    weight = op.DequantizeLinear(matrix[""], matrix["scale"], axis=1, name="weight")
    return op.MatMul(rounded, weight)


def _step(op: Any, signed: bool) -> tuple[Value, Value]:
    """The step of rounded rows, and their zero."""
    zero = np.array(0, np.int8) if signed else np.array(UNSIGNED_ZERO, np.uint8)
    return op.Constant(value_float=1 / LARGEST), op.Constant(value=zero)


class Int8Fast(Int8Turned):
    """A turned matrix; one scale for the whole batch: faster, but a row depends on the other rows."""

    name = "int8, a batch at a time"

    @property
    def rounding(self) -> Rounding:
        """See NumberFormat."""
        return at_once

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """See NumberFormat."""
        names = ["steps", "step", "zero"]
        steps, step, zero = op.DynamicQuantizeLinear(x, name=names)
        counts = op.Cast(op.MatMulInteger(steps, matrix[""], zero), to=1, name="counts")
        y = op.Mul(counts, op.Mul(step, matrix["scale"]), name="products")
        return y if bias is None else op.Add(y, bias)


INT8_ROWS, INT8_IN_OUT, INT8_CENTRED, INT8_FAST = Int8Rows(), Int8InOut(), Int8Centred(), Int8Fast()
