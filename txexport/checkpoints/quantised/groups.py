"""Groups of inputs that share a scale."""

from collections.abc import Iterable

import numpy as np

from txexport.checkpoints.quantised.module import Part
from txexport.errors import CheckpointError


def block_of(inputs: int, scales: Part, count: int, sizes: Iterable[int]) -> int:
    """The size of each of `count` blocks of inputs: the first of `sizes` that fits, or an equal part.

    A size below 1 is one block of all inputs. Raises CheckpointError if nothing fits.
    """
    for size in sizes:
        block = size if size > 0 else inputs
        if -(-inputs // block) == count:
            return min(block, inputs)
    if inputs % count:  # a regular expression in config.json may assign this module another size
        raise CheckpointError(f"tensor '{scales.name}' has {count} groups for {inputs} inputs")
    return inputs // count


def ordered(groups: Part, count: int) -> tuple[int, np.ndarray | None]:
    """The size of a block, and the order of inputs in blocks: None if it is their own.

    `groups` (in) is the group of each input, one of `count`; all have the same size, except a shorter last
    one.
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
