"""A float8 matrix with one scale, one for each output, or one for each rectangle."""

from collections.abc import Sequence

import numpy as np

from txexport.checkpoints.quantised.float8 import E8M0, LEVELS
from txexport.checkpoints.quantised.matrix import Codes, Matrix
from txexport.checkpoints.quantised.module import ANY_FLOAT, Module, Part, nbytes_of
from txexport.errors import CheckpointError

SCALES = (*ANY_FLOAT, "F8_E8M0")


def matrix(module: Module, scale: str, rectangles: Sequence[tuple[int, int]]) -> Matrix:
    """A module's `weight` (out,in) times its `scale`, which is one number, (out,1), or one a rectangle.

    `rectangles` are the sizes (outputs, inputs) in config.json; blocks at the ends may be short.
    """
    codes, scales = module.take("weight", tuple(LEVELS), 2), module.take(scale, SCALES)
    outputs, inputs = codes.shape
    shapes = {(): (outputs, inputs), (1,): (outputs, inputs), (1, 1): (outputs, inputs)}
    shapes |= {(outputs,): (1, inputs), (outputs, 1): (1, inputs)} if outputs > 1 else {}
    for rows, columns in rectangles:
        shapes[-(-outputs // rows), -(-inputs // columns)] = rows, columns
    scales.expect(*shapes)
    rows, columns = shapes[scales.shape]

    def load() -> Codes:
        numbers = _numbers(scales).reshape(-1, -(-inputs // columns))
        spread = np.repeat(numbers, rows, axis=0)[:outputs]
        return Codes(codes.array(), LEVELS[codes.stored.dtype], spread, columns)

    return Matrix(codes.stored.dtype, (outputs, inputs), nbytes_of(codes, scales), load)


def _numbers(scales: Part) -> np.ndarray:
    """Scales as float32. Raises CheckpointError if one is not finite."""
    if scales.stored.dtype != "F8_E8M0":
        return scales.scales()
    numbers = E8M0[scales.array()]
    if np.isnan(numbers).any():
        raise CheckpointError(f"tensor '{scales.name}' holds a scale that is not finite")
    return numbers
