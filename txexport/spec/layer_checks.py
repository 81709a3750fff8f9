"""A check that all stacks of equal width share."""

from typing import Any

from txexport.errors import SpecError, positive
from txexport.spec.grid_attention import GridAttentionSpec
from txexport.spec.reduced_attention import ConvolvedFeedForwardSpec, ReducedAttentionSpec
from txexport.spec.window_attention import WindowAttentionSpec

OF_GRIDS = (WindowAttentionSpec, GridAttentionSpec, ReducedAttentionSpec, ConvolvedFeedForwardSpec)


def check_layers(stack: Any) -> None:
    """Raise SpecError if blocks, their number, the embedding and the final norm contradict each other."""
    positive(stack, "num_layers")
    name, width = type(stack).__name__, stack.hidden_size
    if not 1 <= len(stack.blocks) <= stack.num_layers:
        raise SpecError(f"{name}: {len(stack.blocks)} blocks for {stack.num_layers} layers")
    for block in stack.blocks:
        for part in (block.attention, block.feed_forward):
            if isinstance(part, OF_GRIDS):
                raise SpecError(f"{name}: {type(part).__name__} reads a grid, expected a StagedStackSpec")
        if block.attention.hidden_size != width:
            raise SpecError(
                f"{name}: the embedding is {width} wide, its blocks {block.attention.hidden_size}"
            )
    if stack.final_norm is not None and stack.final_norm.size != width:
        raise SpecError(f"{name}: final norm is {stack.final_norm.size} wide, the stack {width}")
