"""Attention masks of a decoder whose tokens of one image attend to each other: true where one does."""

import torch
from torch import Tensor


def image_groups(image_token_id: int, input_ids: Tensor) -> Tensor:
    """input_ids (B,S) -> a number for each image of a row (B,S), -1 for other tokens.

    Adjacent tokens of images are one image: it has the number of other tokens before it.
    """
    image = input_ids == image_token_id  # (B, S)
    groups = torch.where(image, (~image).cumsum(1), -1)
    return groups


def grouped_cache_mask(
    window: int | None,
    positions: Tensor,
    past_k: Tensor,
    queries: Tensor,
    groups: Tensor,
    cache_lengths: Tensor,
) -> Tensor:
    """As `cache_mask`, and queries of the groups `queries` (B,S) attend to all new tokens of their own.

    groups (B,N) are those of the new tokens, whose first slots are cache_lengths (B). A window limits how far
    back a query sees, not how far ahead within its image.
    """
    slots = torch.arange(past_k.shape[2], device=past_k.device)  # (C)
    query = positions[:, :, None]  # (B, S, 1)
    new = slots - cache_lengths[:, None]  # (B, C)
    seen = (slots <= query) | of_one_group(queries, groups, new)  # (B, S, C)
    if window is not None:
        seen = seen & (query - slots < window)
    mask = seen[:, None]  # (B, 1, S, C)
    return mask


def grouped_causal_mask(window: int | None, attention_mask: Tensor, order: Tensor, groups: Tensor) -> Tensor:
    """As `causal_mask`, and the S last tokens attend to all of their group in groups (B,S)."""
    width, length = attention_mask.shape[1], groups.shape[1]
    keys = torch.arange(width, device=attention_mask.device)  # (T)
    first = width - length
    past = keys <= torch.arange(length, device=keys.device)[:, None] + first  # (S, T)
    new = (keys - first).expand(groups.shape[0], -1)  # (B, T)
    seen = (past | of_one_group(groups, groups, new)) & attention_mask.bool()[:, None]  # (B, S, T)
    if window is not None:
        distance = order[:, first:, None] - order[:, None, :]  # (B, S, T)
        seen = seen & (distance < window)
    mask = seen[:, None]  # (B, 1, S, T)
    return mask


def of_one_group(queries: Tensor, groups: Tensor, new: Tensor) -> Tensor:
    """Groups of queries (B,S) and of new tokens (B,N), new (B,T) -> true for a query and key of one image.

    `new` is the index of each key among the new tokens; it is out of range for a key of the cache.
    """
    inside = (new >= 0) & (new < groups.shape[1])
    of_keys = torch.where(inside, groups.gather(1, new.clamp(0, groups.shape[1] - 1)), -1)  # (B, T)
    same = (queries[:, :, None] == of_keys[:, None, :]) & (queries[:, :, None] >= 0)  # (B, S, T)
    return same
