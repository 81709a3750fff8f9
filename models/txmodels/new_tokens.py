"""Inputs of layers with states beside the vectors of new tokens."""

import torch
from torch import Tensor

from txexport.spec import TextStackSpec
from txmodels.mask import counted_tokens, first_slots, first_tokens, masked_tokens
from txmodels.position import positions


def new_tokens(
    spec: TextStackSpec,
    dtype: torch.dtype,
    input_ids: Tensor,
    past_k: Tensor | None,
    attention_mask: Tensor | None,
    new_lengths: Tensor | None,
    cache_lengths: Tensor | None,
) -> dict[str, Tensor]:
    """The inputs of layers with states: real (B,S,1) of the new tokens, and ends (B).

    Where a layer reads it, also `first` (B,S,1), true for the first token of a row. Over a static cache
    new_lengths (B) and cache_lengths (B) tell all of it, elsewhere the mask (B,P+S), or none for full rows.
    """
    if attention_mask is None and new_lengths is None:
        length = 0 if past_k is None else past_k.shape[2]
        attention_mask = ones(input_ids, length)
    if new_lengths is not None:
        real, ends = counted_tokens(input_ids, new_lengths), new_lengths
    else:
        assert attention_mask is not None
        real, ends = masked_tokens(attention_mask, input_ids)
    new = {"real": real.to(dtype), "ends": ends}
    if not any("first" in block.new_tokens for block in spec.blocks):
        return new
    if new_lengths is not None:
        assert cache_lengths is not None
        return new | {"first": first_slots(positions(input_ids, cache_lengths))}
    assert attention_mask is not None
    return new | {"first": first_tokens(attention_mask, input_ids)}


def ones(input_ids: Tensor, length: int) -> Tensor:
    """A mask (B,P+S) that hides nothing, of new tokens (B,S) behind P others."""
    return input_ids.new_ones(len(input_ids), length + input_ids.shape[1])
