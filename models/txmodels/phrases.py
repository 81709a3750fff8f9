"""Phrases of a text, which do not see one another (Liu et al. 2023, 3.4)."""

import math

import torch
from torch import Tensor

TEMPERATURE = 10000  # of sines


def phrases(separators: tuple[int, ...], input_ids: Tensor) -> tuple[Tensor, Tensor]:
    """input_ids (B,S) -> mask (B,1,S,S), true within a phrase, and positions (B,S) within phrases.

    A phrase ends with one of `separators`. Tokens of one that ends with the first or the last token, or
    does not end, see themselves alone.
    """
    length, device = input_ids.shape[1], input_ids.device
    order = torch.arange(length, device=device)
    ends = torch.isin(input_ids, torch.tensor(separators, device=device))[:, None]  # (B, 1, S)
    behind = order >= order[:, None]  # (S, S)
    following = torch.where(ends & behind, order, length).amin(2)  # (B, S)
    before = torch.where(ends & ~behind, order, -1).amax(2)  # (B, S)
    closed = (following > 0) & (following < length - 1)
    same = (following[:, :, None] == following[:, None]) & closed[:, None]  # (B, S, S)
    mask = (same | (order == order[:, None]))[:, None]  # (B, 1, S, S)
    positions = torch.where(closed, order - before - 1, 0)
    return mask, positions


def number_sines(size: int, x: Tensor) -> Tensor:
    """x (B,S,n) -> sines and cosines (B,S,n * size) of each number by turns, in turns of 2 pi."""
    steps = torch.arange(0, size, 2, device=x.device).to(x)
    turns = x[..., None] * (2 * math.pi) / TEMPERATURE ** (steps / size)  # (B, S, n, size / 2)
    sines = torch.stack([turns.sin(), turns.cos()], dim=-1).flatten(2)
    return sines
