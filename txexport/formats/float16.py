"""float16 or bfloat16 storage: parameters are widened to float32, unless graphs compute in float16.

Runtimes widen at load, so that speed and memory are those of float32; files are half as long. bfloat16 keeps
every number of a checkpoint that is stored in it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from txexport.formats.float32 import FLOAT32, FLOAT32_IN_OUT, Float32
from txexport.formats.number_format import NumberType, Part, UnstorableError, Use, Value, Values

FLOAT16 = NumberType(onnx="FLOAT16", safetensors="F16", numpy="<f2", bits=16)
BFLOAT16 = NumberType(onnx="BFLOAT16", safetensors="BF16", numpy="<u2", bits=16)
FLOAT = 1  # ONNX's number of float32 in Cast
MOST = 65504.0  # the largest number of float16
COMPUTED = 3e-2  # some 60 roundings: random models of six layers reach 1.7e-2


class Half:
    """Numbers of the format `wide`, rounded to `type`.

    A graph either `computes` with them, or widens them to float32.
    """

    private = False
    rounding = None

    def __init__(self, wide: Float32, type_: NumberType, name: str, computes: bool = False):
        self.wide, self.type, self.name, self.computes = wide, type_, name, computes
        self.relative = COMPUTED if computes else wide.relative
        self.lossless = False
        self._narrow: Callable[[np.ndarray], np.ndarray] = _rounded16 if type_ == FLOAT16 else _rounded_brain

    def parts(self, shape: tuple[int, ...]) -> Mapping[str, Part]:
        """See NumberFormat."""
        return {name: Part(self.type, part.shape) for name, part in self.wide.parts(shape).items()}

    def encode(self, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
        """See NumberFormat. Raises UnstorableError for a number beyond float16's range."""
        for name, block in self.wide.encode(rows, shape):
            yield name, self._narrow(block)

    def decode(self, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """See NumberFormat."""
        stored = parts[""]
        if self.type == BFLOAT16:
            wide = (stored.astype(np.uint32) << 16).view(np.float32)
        else:
            wide = stored.astype(np.float32)
        return self.wide.decode({"": wide}, shape)

    def share(self, numbers: np.ndarray, kept: np.ndarray) -> float:
        """See NumberFormat: half a unit in the last place."""
        bits, least = (8, 0.0) if self.type == BFLOAT16 else (11, 2.0**-25)
        wide = numbers.astype(np.float64)
        allowed = np.maximum(np.abs(wide) * 2.0**-bits, least)
        return float((np.abs(kept - wide) / np.where(allowed > 0, allowed, 1)).max(initial=0.0))

    def stand(self, op: Any, name: str, parts: Values, use: Use) -> Values:
        """See NumberFormat; parameters of the use WHOLE are widened in the main graph."""
        if self.computes or use != Use.WHOLE:
            return parts
        return {"": op.Cast(parts[""], to=FLOAT, name=f"{name}.numbers")}

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """See NumberFormat."""
        if self.computes:
            return self.wide.product(op, x, matrix, bias)
        return self.wide.product(op, x, {"": op.Cast(matrix[""], to=FLOAT, name="weight")}, bias)

    def lookup(self, op: Any, ids: Value, table: Values) -> Value:
        """See NumberFormat."""
        if self.computes:
            return self.wide.lookup(op, ids, table)
        return op.Cast(op.Gather(table[""], ids), to=FLOAT, name="rows")


def _rounded16(numbers: np.ndarray) -> np.ndarray:
    largest = np.abs(numbers).max(initial=0.0)
    if largest > MOST:
        raise UnstorableError(
            f"has a number of size {largest:.3g}, and float16 ends at {MOST:.0f}; use bfloat16"
        )
    return numbers.astype(FLOAT16.numpy)


def _rounded_brain(numbers: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(BFLOAT16.numpy)


FLOAT16_ROWS = Half(FLOAT32, FLOAT16, "float16")
FLOAT16_IN_OUT = Half(FLOAT32_IN_OUT, FLOAT16, "float16 (in, out)")
FLOAT16_COMPUTED = Half(FLOAT32, FLOAT16, "float16, computed", computes=True)
FLOAT16_COMPUTED_IN_OUT = Half(FLOAT32_IN_OUT, FLOAT16, "float16 (in, out), computed", computes=True)
BFLOAT16_ROWS = Half(FLOAT32, BFLOAT16, "bfloat16")
BFLOAT16_IN_OUT = Half(FLOAT32_IN_OUT, BFLOAT16, "bfloat16 (in, out)")
