"""Attention masks: boolean, true if a query attends to a key."""

import torch
from torch import Tensor

from txexport.spec.attention import Reach


def padding_mask(attention_mask: Tensor, input_ids: Tensor) -> Tensor:
    """attention_mask (B,T) of 0 and 1, input_ids (B,S) -> mask (B,1,S,T): queries attend to real keys."""
    keys = attention_mask.bool()[:, None, None, :]  # (B, 1, 1, T)
    mask = keys.expand(-1, -1, input_ids.shape[1], -1)  # (B, 1, S, T)
    return mask


def mutual_mask(attention_mask: Tensor) -> Tensor:
    """attention_mask (B,S) of 0 and 1 -> mask (B,1,S,S): every real query attends to every real key."""
    real = attention_mask.bool()  # (B, S)
    mask = (real[:, :, None] & real[:, None, :])[:, None]  # (B, 1, S, S)
    return mask


def from_first_token(attention_mask: Tensor, order: Tensor) -> Tensor:
    """attention_mask and order (B,S) -> order (B,S) counted from each row's first real token."""
    empty = attention_mask.cumsum(1) == 0
    return order - empty.sum(1, keepdim=True)


def near_mask(window: int, attention_mask: Tensor, input_ids: Tensor, order: Tensor) -> Tensor:
    """As `padding_mask`, for queries whose `order` (B,S) is less than `window` from the key's, either way."""
    mask = padding_mask(attention_mask, input_ids)  # (B, 1, S, S)
    distance = (order[:, :, None] - order[:, None, :]).abs()  # (B, S, S)
    mask = mask & (distance < window)[:, None]
    return mask


def causal_mask(reach: Reach, attention_mask: Tensor, input_ids: Tensor, order: Tensor) -> Tensor:
    """As `padding_mask`, and causal; the S queries are the last of the T keys.

    With a window, a query attends only to keys whose `order` (B,T) is less than that below its own (Beltagy
    et al. 2020, 3.1), or if windows are chunks, only to keys of its own.
    """
    keys = attention_mask.bool()[:, None, None, :]  # (B, 1, 1, T)
    width, length = attention_mask.shape[1], input_ids.shape[1]
    key_positions = torch.arange(width, device=attention_mask.device)  # (T)
    first = width - length
    query_positions = torch.arange(length, device=attention_mask.device) + first  # (S)
    past = key_positions <= query_positions[:, None]  # (S, T)
    mask = keys & past  # (B, 1, S, T)
    if reach.window is not None and reach.chunked:
        chunks = torch.div(order, reach.window, rounding_mode="trunc")  # (B, T)
        mask = mask & (chunks[:, first:, None] == chunks[:, None, :])[:, None]
    elif reach.window is not None:
        late = order[:, first:, None]  # (B, S, 1)
        distance = late - order[:, None, :]  # (B, S, T)
        mask = mask & (distance < reach.window)[:, None]
    return mask


def cache_mask(reach: Reach, places: Tensor, past_k: Tensor) -> Tensor:
    """For queries at the slots `places` (B,S), past_k (B,K,C,H) -> mask (B,1,S,C) over a static cache.

    A query attends to itself and the slots before it, or only to window - 1 of them, or of its chunk.
    """
    slots = torch.arange(past_k.shape[2], device=past_k.device)  # (C)
    own = places[:, :, None]  # (B, S, 1)
    seen = slots <= own  # (B, S, C)
    if reach.window is not None and reach.chunked:
        chunk = torch.div(own, reach.window, rounding_mode="trunc")  # (B, S, 1)
        seen = seen & (chunk == torch.div(slots, reach.window, rounding_mode="trunc"))
    elif reach.window is not None:
        seen = seen & (own - slots < reach.window)
    mask = seen[:, None]  # (B, 1, S, C)
    return mask


def near_slots(window: int, slots: Tensor, past_k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of new tokens in `slots` (B,S) of past_k (B,K,C,H) -> first (1), end (1), few (1).

    No query sees a slot before the `first` one, or from `end` on; `few` tells whether half of the slots or
    more are not seen.
    """
    first = (slots.min() - (window - 1)).clamp(min=0)[None]
    end = slots.max()[None] + 1
    few = (end - first) * 2 <= past_k.shape[2]
    return first, end, few


def filled_then(input_ids: Tensor, cache_lengths: Tensor) -> Tensor:
    """input_ids (B,S), cache_lengths (B) -> the filled slots (B) of each row, the new tokens included."""
    filled = cache_lengths + input_ids.shape[1]
    return filled


def counted_tokens(input_ids: Tensor, new_lengths: Tensor) -> Tensor:
    """input_ids (B,S), new_lengths (B) -> whether a token is one of its row's first new_lengths (B,S,1)."""
    steps = torch.arange(input_ids.shape[1], device=input_ids.device)  # (S)
    real = (steps < new_lengths[:, None])[:, :, None]  # (B, S, 1)
    return real


def masked_tokens(attention_mask: Tensor, input_ids: Tensor) -> tuple[Tensor, Tensor]:
    """attention_mask (B,T) of 0 and 1, input_ids (B,S) its last -> real (B,S,1), ends (B).

    `ends` are the tokens of a row up to its last real one; 0 where there is none.
    """
    mask = attention_mask[:, attention_mask.shape[1] - input_ids.shape[1] :]  # (B, S)
    steps = torch.arange(1, mask.shape[1] + 1, device=mask.device)  # (S)
    ends = (mask * steps).amax(1)  # (B)
    real = mask.bool()[:, :, None]  # (B, S, 1)
    return real, ends


def first_tokens(attention_mask: Tensor, input_ids: Tensor) -> Tensor:
    """attention_mask (B,T) of 0 and 1, input_ids (B,S) its last -> true for the first of a row (B,S,1)."""
    counts = attention_mask.cumsum(1)[:, attention_mask.shape[1] - input_ids.shape[1] :]  # (B, S)
    first = (counts == 1)[:, :, None]  # (B, S, 1)
    return first


def first_slots(slots: Tensor) -> Tensor:
    """slots (B,S) of tokens -> true for the first of a row (B,S,1)."""
    first = (slots == 0)[:, :, None]  # (B, S, 1)
    return first


def single_token(input_ids: Tensor) -> Tensor:
    """input_ids (B,S) -> whether S is 1 (1)."""
    single = torch.tensor([input_ids.shape[1] == 1], device=input_ids.device)
    return single


def biased_mask(bias: Tensor, mask: Tensor) -> Tensor:
    """bias (B,N,S,T), mask (B,1,S,T) -> the bias of scores (B,N,S,T), the lowest number at masked keys."""
    both = bias.masked_fill(~mask, -3.0e38)  # (B, N, S, T)
    return both
