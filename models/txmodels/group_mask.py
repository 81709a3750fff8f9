"""Attention masks of a decoder whose tokens of one group attend to each other: true where one does.

A group is an image, or the prefix of a row.
"""

import torch
from torch import Tensor


def image_groups(image_token_id: int, input_ids: Tensor) -> Tensor:
    """input_ids (B,S) -> a number for each image of a row (B,S), -1 for other tokens.

    Adjacent tokens of images are one image: it has the number of other tokens before it.
    """
    image = input_ids == image_token_id  # (B, S)
    groups = torch.where(image, (~image).cumsum(1), -1)
    return groups


def prefix_groups(positions: Tensor, prefix_lengths: Tensor) -> Tensor:
    """Positions of tokens (B,S), prefix_lengths (B) -> 0 for a token of the prefix (B,S), -1 for others."""
    inside = positions < prefix_lengths[:, None]  # (B, S)
    groups = torch.where(inside, 0, -1)
    return groups


def first_step(attention_mask: Tensor, tokens: Tensor) -> Tensor:
    """attention_mask (B,T), the S new tokens (B,S) -> prefix_lengths (B): all of them, if a row has no past.

    T stands for all tokens.
    """
    width = attention_mask.shape[1]
    past = attention_mask[:, : width - tokens.shape[1]].sum(1)  # (B)
    prefix_lengths = torch.where(past == 0, width, 0)
    return prefix_lengths


def grouped_cache_mask(
    window: int | None,
    bounded: bool,
    positions: Tensor,
    past_k: Tensor,
    queries: Tensor,
    groups: Tensor,
    cache_lengths: Tensor,
) -> Tensor:
    """As `cache_mask`, and queries of the groups `queries` (B,S) attend to all new tokens of their own.

    groups (B,N) are those of the new tokens, whose first slots are cache_lengths (B). A window limits how far
    back a query sees, in its own group too if that is `bounded`, but not how far ahead.
    """
    slots = torch.arange(past_k.shape[2], device=past_k.device)  # (C)
    query = positions[:, :, None]  # (B, S, 1)
    new = slots - cache_lengths[:, None]  # (B, C)
    past, same = slots <= query, of_one_group(queries, groups, new)  # (B, S, C)
    near = None if window is None else query - slots < window
    seen = _together(bounded, past, same, near)
    mask = seen[:, None]  # (B, 1, S, C)
    return mask


def grouped_causal_mask(
    window: int | None, bounded: bool, attention_mask: Tensor, order: Tensor, groups: Tensor
) -> Tensor:
    """As `causal_mask`, and the S last tokens attend to all of their group in groups (B,S)."""
    width, length = attention_mask.shape[1], groups.shape[1]
    keys = torch.arange(width, device=attention_mask.device)  # (T)
    first = width - length
    past = keys <= torch.arange(length, device=keys.device)[:, None] + first  # (S, T)
    new = (keys - first).expand(groups.shape[0], -1)  # (B, T)
    near = None
    if window is not None:
        distance = order[:, first:, None] - order[:, None, :]  # (B, S, T)
        near = distance < window
    seen = _together(bounded, past, of_one_group(groups, groups, new), near)  # (B, S, T)
    mask = (seen & attention_mask.bool()[:, None])[:, None]  # (B, 1, S, T)
    return mask


def of_one_group(queries: Tensor, groups: Tensor, new: Tensor) -> Tensor:
    """Groups of queries (B,S) and of new tokens (B,N), new (B,T) -> true for a query and key of one group.

    `new` is the index of each key among the new tokens; it is out of range for a key of the cache.
    """
    inside = (new >= 0) & (new < groups.shape[1])
    of_keys = torch.where(inside, groups.gather(1, new.clamp(0, groups.shape[1] - 1)), -1)  # (B, T)
    same = (queries[:, :, None] == of_keys[:, None, :]) & (queries[:, :, None] >= 0)  # (B, S, T)
    return same


def _together(bounded: bool, past: Tensor, same: Tensor, near: Tensor | None) -> Tensor:
    """Keys that are not later, of the same group, and within the window -> those that are seen (B,S,T)."""
    if near is None:
        return past | same
    return (past | same) & near if bounded else (past & near) | same
