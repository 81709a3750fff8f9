"""Mixing of tokens by a Fourier transform."""

import math

import torch
from torch import Tensor, nn

from txexport.spec import FourierMixingSpec


def fourier_tables(spec: FourierMixingSpec, tokens: Tensor) -> tuple[Tensor, ...]:
    """tokens (B,S) -> cosines and sines of a vector's numbers (W,F), and of tokens (S,S), in float64."""
    numbers, order = torch.arange(spec.hidden_size), torch.arange(tokens.shape[1])
    across = numbers[:, None] * numbers[: spec.frequencies] % spec.hidden_size  # (W, F)
    along = order[:, None] * order % len(order)  # (S, S)
    of_width = 2 * math.pi / spec.hidden_size * across.double()
    of_tokens = 2 * math.pi / len(order) * along.double()
    return of_width.cos(), of_width.sin(), of_tokens.cos(), of_tokens.sin()


class FourierMixing(nn.Module):
    """The real part of the transform over tokens and numbers (Lee-Thorp et al. 2021, 3.2), as products."""

    def __init__(self, spec: FourierMixingSpec):
        super().__init__()
        self.mirrored = range(spec.hidden_size - spec.frequencies, 0, -1)

    def forward(
        self, x: Tensor, cos_width: Tensor, sin_width: Tensor, cos_tokens: Tensor, sin_tokens: Tensor
    ) -> Tensor:
        """x (B,S,W), tables (W,F) and (S,S) -> y (B,S,W)."""
        even = cos_tokens.to(x) @ (x @ cos_width.to(x))  # (B, S, F)
        odd = sin_tokens.to(x) @ (x @ sin_width.to(x))
        y = torch.cat([even - odd, (even + odd)[..., self.mirrored]], dim=-1)
        return y
