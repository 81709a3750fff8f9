"""Where tokens stand in their sequence."""

import torch
from torch import Tensor

from txexport.spec import RotarySpec


def positions(input_ids: Tensor, start: Tensor) -> Tensor:
    """input_ids (B,S), start (B) or (1): tokens that come before -> positions (B,S) or (1,S)."""
    steps = torch.arange(input_ids.shape[1], device=start.device)  # (S)
    places = start[:, None] + steps  # (B, S)
    return places


def token_positions(padding: int, input_ids: Tensor) -> Tensor:
    """input_ids (B,S) -> positions (B,S) that count from 1 and skip the id `padding`, which gets 0."""
    real = (input_ids != padding).long()  # (B, S)
    places = real.cumsum(1) * real  # (B, S)
    return places


def rotation(spec: RotarySpec, positions: Tensor) -> tuple[Tensor, Tensor]:
    """positions (B,S) -> cosines and sines (B,S,R), R = len(spec.frequencies) (Su et al. 2021, 3.4.2)."""
    frequencies = torch.tensor(spec.frequencies, device=positions.device)  # (R)
    angles = positions[:, :, None].float() * frequencies  # (B, S, R)
    cos = angles.cos() * spec.scale
    sin = angles.sin() * spec.scale
    return cos, sin
