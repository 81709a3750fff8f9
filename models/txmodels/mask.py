"""Who may attend to whom. A mask is boolean: true where a query sees a key."""

import torch
from torch import Tensor


def padding_mask(attention_mask: Tensor, input_ids: Tensor) -> Tensor:
    """attention_mask (B,T) of 0 and 1, input_ids (B,S) -> mask (B,1,S,T): every query sees every real key."""
    keys = attention_mask.bool()[:, None, None, :]  # (B, 1, 1, T)
    mask = keys.expand(-1, -1, input_ids.shape[1], -1)  # (B, 1, S, T)
    return mask


def causal_mask(attention_mask: Tensor, input_ids: Tensor) -> Tensor:
    """As `padding_mask`, and no query sees a key after itself; the S queries are the last of the T keys."""
    keys = attention_mask.bool()[:, None, None, :]  # (B, 1, 1, T)
    width, length = attention_mask.shape[1], input_ids.shape[1]
    places = torch.arange(width, device=attention_mask.device)  # (T)
    past = places[None, :] <= places[width - length :, None]  # (S, T)
    mask = keys & past  # (B, 1, S, T)
    return mask
