"""MXFP4, blocks of 32 numbers of 4 bits with a power of two (OCP Microscaling Formats 1.0), of gpt-oss.

`*_blocks` uint8 (experts, out, in/32, 16), the first of two numbers in the low half; `*_scales` uint8
(experts, out, in/32), the power plus 127 (transformers, integrations/mxfp4.py). Twice a number of 4 bits is
an integer, so that the matrix is one of int8 with half the scales.
"""

from collections.abc import Callable

import numpy as np

from txexport.checkpoints.quantised.float8 import E8M0
from txexport.checkpoints.quantised.matrix import Matrix, Stack
from txexport.checkpoints.quantised.module import Module, Part, nbytes_of
from txexport.checkpoints.quantised.settings import Settings
from txexport.errors import CheckpointError
from txexport.formats.blocks import Blocks

BLOCK = 32
BLOCKS = "_blocks"
TWICE = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)


def reader(settings: Settings) -> Callable[[Module], dict[str, Stack]]:
    """A reader of modules, which are recognised by their tensors."""
    return stacks


def stacks(module: Module) -> dict[str, Stack]:
    """The result of `experts` for each pair of tensors, by name."""
    leaves = [leaf.removesuffix(BLOCKS) for leaf in module.parts if leaf.endswith(BLOCKS)]
    return {leaf: experts(module, leaf) for leaf in leaves}


def experts(module: Module, leaf: str) -> Stack:
    """The matrix (out,in) of each expert, from the tensors `leaf`_blocks and `leaf`_scales of a module.

    Raises CheckpointError if one is missing or they do not fit.
    """
    packed, scales = module.take(f"{leaf}{BLOCKS}", ("U8",), 4), module.take(f"{leaf}_scales", ("U8",), 3)
    packed.expect((*packed.shape[:3], BLOCK // 2))
    scales.expect(packed.shape[:3])
    return Stack(tuple(_matrix(packed.of(number), scales.of(number)) for number in range(packed.shape[0])))


def _matrix(packed: Part, scales: Part) -> Matrix:
    outputs, count = scales.shape
    return Matrix(
        "mxfp4", (outputs, count * BLOCK), nbytes_of(packed, scales), lambda: _blocks(packed, scales)
    )


def _blocks(packed: Part, scales: Part) -> Blocks:
    """packed (out, in/32, 16), scales (out, in/32) -> integers (out,in)."""
    octets, powers = packed.array(), scales.array()
    if (powers == 255).any():
        raise CheckpointError(f"tensor '{scales.name}' holds a scale that is not a number")
    codes = np.stack([octets & 15, octets >> 4], axis=-1).reshape(len(octets), -1)
    return Blocks(TWICE[codes], 8, E8M0[powers] * np.float32(0.5), BLOCK)
