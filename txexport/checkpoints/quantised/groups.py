"""Which inputs share a scale."""

from collections.abc import Iterable

import numpy as np

from txexport.checkpoints.quantised.module import Part
from txexport.errors import CheckpointError


def block_of(inputs: int, scales: Part, count: int, sizes: Iterable[int]) -> int:
    """The inputs of each of `count` blocks: the first of `sizes` that fits, or an equal part.

    A size below 1 is one block of all. Raises CheckpointError where nothing fits.
    """
    for size in sizes:
        block = size if size > 0 else inputs
        if -(-inputs // block) == count:
            return min(block, inputs)
    if inputs % count:  # config.json may give this module another size, by an expression
        raise CheckpointError(f"tensor '{scales.name}' has {count} groups for {inputs} inputs")
    return inputs // count


def ordered(groups: Part, count: int) -> tuple[int, np.ndarray | None]:
    """The inputs of a block, and their order in blocks: None where it is their own.

    `groups` (in) says which of `count` groups an input is of, all of the same size but a shorter last one.
    """
    numbers = groups.array()
    if numbers.min() < 0 or numbers.max() >= count:
        raise CheckpointError(
            f"tensor '{groups.name}' names groups {numbers.min()} to {numbers.max()}; "
            f"expected 0 to {count - 1}"
        )
    sizes = np.bincount(numbers, minlength=count)
    if not (sizes[:-1] == sizes[0]).all() or not 0 < sizes[-1] <= sizes[0]:
        raise CheckpointError(
            f"tensor '{groups.name}' has groups of {sizes.min()} to {sizes.max()} inputs; expected equal ones"
        )
    order = np.argsort(numbers, kind="stable")
    return int(sizes[0]), None if (np.diff(order) == 1).all() else order
