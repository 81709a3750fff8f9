"""float32, the default: parameters are stored as they are computed with."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from txexport.formats.number_format import NumberType, Part, Use, Value, Values

FLOAT = NumberType(onnx="FLOAT", safetensors="F32", numpy="<f4", bits=32)


class Float32:
    """Every number unchanged; a matrix (out,in) that is also a table is stored row by row."""

    name = "float32"
    relative = 1e-5  # above the rounding error of some ten layers
    private, lossless = False, True
    rounding = None

    def parts(self, shape: tuple[int, ...]) -> Mapping[str, Part]:
        """See NumberFormat."""
        return {"": Part(FLOAT, shape)}

    def encode(self, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
        """See NumberFormat."""
        for block in rows:
            yield "", block.astype(FLOAT.numpy, copy=False)

    def decode(self, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """See NumberFormat."""
        return parts[""]

    def share(self, numbers: np.ndarray, kept: np.ndarray) -> float:
        """See NumberFormat: no error is allowed."""
        return 0.0 if np.array_equal(numbers, kept) else np.inf

    def stand(self, op: Any, name: str, parts: Values, use: Use) -> Values:
        """See NumberFormat."""
        return parts

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """See NumberFormat."""
        weight = matrix[""]
        biases = [] if bias is None else [bias]
        rows = op.Gemm(op.Flatten(x, axis=-1), weight, *biases, transB=1, name="rows")  # (B*S, out)
        return op.Reshape(rows, op.Concat(op.Shape(x, end=-1), op.Shape(weight, end=1), axis=0))

    def lookup(self, op: Any, ids: Value, table: Values) -> Value:
        """See NumberFormat."""
        return op.Gather(table[""], ids, name="rows")


class Float32InOut(Float32):
    """A matrix (out,in) stored as (in,out), the layout that MatMul and other tools expect."""

    name = "float32 (in, out)"

    def parts(self, shape: tuple[int, ...]) -> Mapping[str, Part]:
        """See NumberFormat."""
        return {"": Part(FLOAT, shape[::-1])}

    def encode(self, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
        """See NumberFormat; the whole matrix is in memory."""
        turned, done = np.empty(shape[::-1], FLOAT.numpy), 0
        for block in rows:
            turned[:, done : done + len(block)] = block.T
            done += len(block)
        yield "", turned

    def decode(self, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """See NumberFormat."""
        return parts[""].T

    def product(self, op: Any, x: Value, matrix: Values, bias: Value | None) -> Value:
        """See NumberFormat."""
        y = op.MatMul(x, matrix[""], name="products")  # (..., out)
        return y if bias is None else op.Add(y, bias)


FLOAT32, FLOAT32_IN_OUT = Float32(), Float32InOut()
