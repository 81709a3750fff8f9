"""Positions of tokens, RoPE and position biases."""

import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from txexport.spec import (
    AlibiSpec,
    PatchSpec,
    QueryGrowthSpec,
    RelativeSpec,
    RotarySpec,
    RoundedAlibiSpec,
)

Present = TypeVar("Present", Tensor, Tensor | None)


def positions(input_ids: Tensor, start: Tensor) -> Tensor:
    """input_ids (B,S), start (B) or (1), the number of preceding tokens -> positions (B,S) or (1,S)."""
    steps = torch.arange(input_ids.shape[1], device=start.device)  # (S)
    places = start[:, None] + steps  # (B, S)
    return places


def asked_positions(logits_indices: Tensor, cache_lengths: Tensor) -> Tensor:
    """logits_indices (B,L) among new tokens, cache_lengths (B) before them -> positions (B,L)."""
    places = cache_lengths[:, None] + logits_indices
    return places


def picked(x: Tensor, logits_indices: Tensor) -> Tensor:
    """x (B,S,...) of new tokens, logits_indices (B,L) among them -> the selected x (B,L,...)."""
    rows = torch.arange(x.shape[0], device=x.device)[:, None]  # (B, 1)
    return x[rows, logits_indices]


def asked(x: Present, logits_indices: Tensor | None) -> Present:
    """As `picked`; without indices all of x (B,S,W), and None for None."""
    return x if x is None or logits_indices is None else picked(x, logits_indices)


def token_positions(padding: int, input_ids: Tensor) -> Tensor:
    """input_ids (B,S) -> positions (B,S) that count from 1 and skip the id `padding`, which gets 0."""
    real = (input_ids != padding).long()  # (B, S)
    places = real.cumsum(1) * real  # (B, S)
    return places


def rotation(spec: RotarySpec, positions: Tensor) -> tuple[Tensor, Tensor]:
    """positions (B,S) -> cosines and sines (B,S,R), R = len(spec.frequencies) (Su et al. 2021, 3.4.2).

    With axes, positions (A,B,S), or (B,S) for those that are the same on each (Wang et al. 2024, 2.1).
    """
    frequencies = torch.tensor(spec.frequencies, device=positions.device)  # (R)
    if spec.long_frequencies:
        beyond = positions.max() > spec.short_length - 1
        stretched = torch.tensor(spec.long_frequencies, device=positions.device)
        frequencies = torch.where(beyond, stretched, frequencies)
    turns = positions[:, :, None]  # (B, S, 1)
    if spec.axes and positions.ndim == 3:
        turns = positions[list(spec.axes)].permute(1, 2, 0)  # (B, S, R)
    angles = turns.float() * frequencies  # (B, S, R)
    cos = angles.cos() * spec.scale
    sin = angles.sin() * spec.scale
    return cos, sin


def query_growth(spec: QueryGrowthSpec, positions: Tensor) -> Tensor:
    """positions (B,S) -> the factors of queries (B,S,1), 1 at the first positions, less than spec.length."""
    intervals = torch.div(positions + spec.ahead, spec.length, rounding_mode="trunc")[:, :, None]  # (B, S, 1)
    growth = torch.log(intervals.float() + 1) * spec.rate + 1  # (B, S, 1)
    return growth


def patch_rotation(patches: PatchSpec, spec: RotarySpec, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
    """pixel_values (B,channels,height,width) -> cosines and sines (B,S,R) (Siméoni et al. 2025, 3.2).

    Half of the R frequencies rotate by a patch's row, half by its column, from -2 pi to 2 pi over an image of
    any size; prefix tokens before the patches are not rotated.
    """
    rows, columns = (length // patches.patch_size for length in pixel_values.shape[2:])
    down, across = ((torch.arange(n, device=pixel_values.device) + 0.5) / n * 2 - 1 for n in (rows, columns))
    places = torch.stack(torch.meshgrid(down, across, indexing="ij"), dim=2).flatten(0, 1)
    frequencies = torch.tensor(spec.frequencies, device=pixel_values.device).unflatten(0, (2, -1))
    turned = (places * (2 * math.pi))[:, :, None] * frequencies  # (rows * columns, 2, R / 2)
    angles = nn.functional.pad(turned.flatten(1), (0, 0, patches.tokens + patches.registers, 0))  # (S, R)
    cos = angles.cos().expand(pixel_values.shape[0], -1, -1)  # (B, S, R)
    sin = angles.sin().expand(pixel_values.shape[0], -1, -1)
    return cos, sin


def patch_coordinates(patch_size: int, pixel_values: Tensor) -> Tensor:
    """pixel_values (B,channels,height,width) -> the row and the column (2,B,S) of each patch."""
    rows, columns = (length // patch_size for length in pixel_values.shape[2:])
    down, across = (torch.arange(count, device=pixel_values.device) for count in (rows, columns))
    both = torch.stack(torch.meshgrid(down, across, indexing="ij")).flatten(1)[:, None]  # (2, 1, S)
    coordinates = both.expand(-1, pixel_values.shape[0], -1)  # (2, B, S)
    return coordinates


def alibi(spec: AlibiSpec, queries: Tensor, keys: Tensor) -> Tensor:
    """ALiBi: a penalty of a head's scores in proportion to distance (Press et al. 2022, 3).

    Positions of queries (B,S) and keys (B,T) or (1,T) -> bias (B,N,S,T).
    """
    slopes = torch.tensor(spec.slopes, device=queries.device)[:, None, None]  # (N, 1, 1)
    distance = (queries[:, :, None] - keys[:, None, :]).abs().float()  # (B, S, T)
    bias = distance[:, None] * -slopes  # (B, N, S, T)
    return bias


def rounded_alibi(spec: RoundedAlibiSpec, queries: Tensor, keys: Tensor) -> Tensor:
    """ALiBi as a bonus for a key's position, rounded to as few bits as in the original model.

    Positions of queries (B,S) and keys (B,T) or (1,T) -> bias (B,N,S,T).
    """
    table = torch.tensor(spec.bias_of_position(), device=keys.device)  # (N, length)
    gained = table[:, keys.clamp(0, spec.length - 1)].transpose(0, 1)  # (B, N, T)
    bias = gained[:, :, None].expand(queries.shape[0], -1, queries.shape[1], -1)  # (B, N, S, T)
    return bias


class RelativeBias(nn.Module):
    """Learned bias of a head's scores for the distance of key and query (Raffel et al. 2020, 2.1)."""

    def __init__(self, spec: RelativeSpec, num_heads: int):
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(torch.empty(spec.buckets, num_heads))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions of queries (B,S) and keys (B,T) or (1,T) -> bias (B,N,S,T)."""
        table = torch.tensor(self.spec.bucket_of_distance(), device=keys.device)  # (max_distance + 1)
        ahead = keys[:, None, :] - queries[:, :, None]  # (B, S, T)
        if self.spec.bidirectional:
            distance = ahead.abs()
        else:
            distance = (-ahead).clamp(min=0)
        buckets = table[distance.clamp(max=self.spec.max_distance)]  # (B, S, T)
        if self.spec.bidirectional:
            buckets = buckets + (ahead > 0) * self.spec.directed
        bias = self.weight[buckets].permute(0, 3, 1, 2)  # (B, N, S, T)
        return bias
