"""Integers (out,in) with one scale, a scale for each output, or scales for groups of inputs."""

from collections.abc import Iterable

import numpy as np

from txexport.checkpoints.quantised.groups import block_of, ordered
from txexport.checkpoints.quantised.module import ANY_FLOAT, Module, Part
from txexport.formats.blocks import Blocks


def scales_of(module: Module, leaf: str, outputs: int) -> tuple[Part, int]:
    """A module's scales, and the number of groups of each output."""
    scales = module.take(leaf, ANY_FLOAT)
    count = scales.shape[1] if len(scales.shape) == 2 else 1
    scales.expect((outputs, count), (outputs,), (1,), ())
    return scales, count


def blocks(
    integers: np.ndarray,
    bits: int,
    scales: Part,
    zeros: np.ndarray | None = None,
    sizes: Iterable[int] = (),
    groups: Part | None = None,
) -> Blocks:
    """Integers (out,in), as `Blocks`: int8, or uint8 with zeros, which are shaped like `scales`.

    `sizes` are the possible sizes of groups; `groups` are those of inputs that are not in order.
    """
    outputs, inputs = integers.shape
    count = scales.shape[1] if len(scales.shape) == 2 else 1
    block, order = block_of(inputs, scales, count, sizes), None
    if groups is not None:
        block, order = ordered(groups, count)
        integers = integers if order is None else integers.take(order, axis=1)
    if zeros is not None:
        zeros = _of_outputs(zeros, count, outputs) if zeros.any() or integers.dtype == np.uint8 else None
    of_blocks = _of_outputs(scales.scales(), count, outputs)
    return Blocks(integers, bits, of_blocks, block, zeros=zeros, order=order)


def _of_outputs(numbers: np.ndarray, count: int, outputs: int) -> np.ndarray:
    """One number, or one for each output, or (out,groups) -> (out,groups)."""
    return np.ascontiguousarray(np.broadcast_to(numbers.reshape(-1, count), (outputs, count)))
