"""bitsandbytes, in its own state dict format (github.com/bitsandbytes-foundation/bitsandbytes).

8 bits: `weight` int8 (out,in), `SCB` (out); number = SCB / 127 * integer. The library computes with columns
of activations above `llm_int8_threshold` in 16 bits, and rounds the others to int8: `rounds` keeps the
rounding, but not the threshold.

4 bits: `weight` uint8, the first of two codes in the high half, row after row; `weight.quant_map` (16) are
the values of codes, `weight.absmax` the scale of each block. If absmax has 8 bits itself, the scale is
nested_quant_map[absmax] * nested_absmax of its own block + nested_offset. The rest is JSON in
`weight.quant_state.bitsandbytes__nf4` or `__fp4`.
"""

import json
import math

import numpy as np

from txexport.checkpoints.quantised.matrix import Codes, Matrix
from txexport.checkpoints.quantised.module import Module, Part, nbytes_of
from txexport.checkpoints.quantised.settings import Settings
from txexport.errors import CheckpointError, UnsupportedError
from txexport.formats.blocks import Blocks

KINDS = ("nf4", "fp4")
STATE = "weight.quant_state.bitsandbytes__"
LONGEST = 1 << 16  # bytes of JSON


def reader(settings: Settings) -> "Reader":
    """A reader of modules with these `settings`. Raises UnsupportedError for codes of another type."""
    settings.expect(bnb_4bit_quant_storage=("uint8",))
    return Reader()


class Reader:
    """Reads the modules of one checkpoint."""

    def __call__(self, module: Module) -> Matrix | None:
        """The matrix of a module; None if it has floats."""
        weight = module.parts.get("weight")
        dtype = "" if weight is None else weight.dtype
        if "SCB" in module.parts or dtype == "I8":
            return _of_8_bits(module)
        if "weight.absmax" in module.parts or dtype == "U8":
            return _of_4_bits(module)
        return None


def _of_8_bits(module: Module) -> Matrix:
    weight, scales = module.take("weight", ("I8",), 2), module.take("SCB", ("F32",))
    outputs, inputs = weight.shape
    scales.expect((outputs,))
    layout = module.maybe("weight_format", ("U8",))
    if layout is not None and layout.array().any():
        raise UnsupportedError(f"tensor '{layout.name}' has another layout than row-major; save it again")

    def load() -> Blocks:
        scale = (scales.scales() / np.float32(127)).reshape(outputs, 1)
        return Blocks(weight.array(), 8, scale, inputs)

    nbytes = nbytes_of(weight, scales, layout)
    return Matrix("bitsandbytes int8", (outputs, inputs), nbytes, load, rounds=True)


def _of_4_bits(module: Module) -> Matrix:
    kind = next((kind for kind in KINDS if f"{STATE}{kind}" in module.parts), KINDS[0])
    described = module.take(f"{STATE}{kind}", ("U8",), 1)
    state = _state(described)
    outputs, inputs = _shape(state)
    block = state.integer("blocksize")
    weight, levels = module.take("weight", ("U8",)), module.take("weight.quant_map", ("F32",))
    levels.expect((16,))
    if block < 1 or math.prod(weight.shape) != math.ceil(outputs * inputs / 2):
        raise CheckpointError(
            f"tensor '{weight.name}' is {weight.shape}, which is not ({outputs}, {inputs}) in 4 bits"
        )
    scales = _Scales(module, state, math.ceil(outputs * inputs / block))

    def load() -> Codes:
        codes = np.stack([weight.array().reshape(-1) >> 4, weight.array().reshape(-1) & 15], axis=1)
        codes = codes.reshape(-1)[: outputs * inputs].reshape(outputs, inputs)
        if inputs % block == 0:
            return Codes(codes, levels.scales(), scales.array().reshape(outputs, -1), block)
        spread = np.repeat(scales.array(), block)[: outputs * inputs]  # blocks may span rows
        return Codes(codes, levels.scales(), spread.reshape(outputs, inputs), 1)

    nbytes = nbytes_of(weight, levels, described, *scales.parts)
    return Matrix(f"bitsandbytes {kind}", (outputs, inputs), nbytes, load)


class _Scales:
    """The scale of each of `count` blocks, in 32 bits, or in 8 bits with scales of their own."""

    def __init__(self, module: Module, state: Settings, count: int):
        self.largest = module.take("weight.absmax", ("F32", "U8"))
        self.largest.expect((count,))
        self.parts = [self.largest]
        if self.largest.stored.dtype == "U8":
            self.block, self.offset = (
                state.integer("nested_blocksize"),
                np.float32(state.number("nested_offset")),
            )
            if self.block < 1:
                raise CheckpointError(f"{state.path}.nested_blocksize is {self.block}, expected more than 0")
            self.scales = module.take("weight.nested_absmax", ("F32",))
            self.levels = module.take("weight.nested_quant_map", ("F32",))
            self.scales.expect((math.ceil(count / self.block),))
            self.levels.expect((256,))
            self.parts += [self.scales, self.levels]

    def array(self) -> np.ndarray:
        """The scales, float32 (count). Raises CheckpointError if one is not finite."""
        if len(self.parts) == 1:
            return self.largest.scales()
        codes = self.largest.array()
        spread = np.repeat(self.scales.scales(), self.block)[: codes.size]
        return self.levels.scales()[codes] * spread + self.offset


def _state(described: Part) -> Settings:
    """The JSON in a tensor. Raises CheckpointError."""
    try:
        if described.shape[0] > LONGEST:
            raise ValueError(f"{described.shape[0]} bytes are more than {LONGEST}")
        values = json.loads(described.array().tobytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"tensor '{described.name}' cannot be read as JSON: {error}") from None
    if not isinstance(values, dict):
        raise CheckpointError(
            f"tensor '{described.name}' holds a {type(values).__name__}, expected an object"
        )
    return Settings(values, f"tensor '{described.name}'")


def _shape(state: Settings) -> tuple[int, int]:
    """The shape (out,in) of the matrix. Raises CheckpointError."""
    shapes = state.rectangles("shape")
    if not shapes:
        raise CheckpointError(f"{state.path}.shape is missing")
    return shapes[0]
