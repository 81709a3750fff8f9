"""Where tokens stand in their sequence."""

import torch
from torch import Tensor


def positions(input_ids: Tensor, start: Tensor) -> Tensor:
    """input_ids (B,S), start (B) or (1): tokens that come before -> positions (B,S) or (1,S)."""
    steps = torch.arange(input_ids.shape[1], device=start.device)  # (S)
    places = start[:, None] + steps  # (B, S)
    return places
