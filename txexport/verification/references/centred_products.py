"""Rounding errors of float32 in products that subtract the middle of each row of activations.

`Int8Centred` computes x W as (x - m) W + m sum(W), with m the middle between a row's smallest and largest
number. The subtraction rounds as if the numbers of x had errors of a last bit of m. The two terms cancel, and
leave an error of a last bit of m sum(W), however small the result.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class CentredProducts(TorchFunctionMode):
    """Products of rows (..., in) in float64, with the errors of centring in float32.

    Only products with matrices of at most as many outputs as inputs, which int8 centres.
    """

    def __init__(self, random: torch.Generator):
        super().__init__()
        self._random = random

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Add the errors to a product; see TorchFunctionMode."""
        y = func(*args, **(kwargs or {}))
        if func is nn.functional.linear:
            x, weight = args[:2]  # (out, in)
        elif func is torch.addmm:  # of transformers' Conv1D
            x, weight = args[1], args[2].T
        else:
            return y
        return y + self._error(x, weight) if weight.ndim == 2 and weight.shape[0] <= weight.shape[1] else y

    def _error(self, x: Tensor, weight: Tensor) -> Tensor | float:
        """The error (..., out) of x (..., in) times the matrix (out, in)."""
        if not x.numel():
            return 0.0
        middle = (x.amax(dim=-1, keepdim=True) + x.amin(dim=-1, keepdim=True)) / 2
        numbers = (middle * self._noise(x.shape)) @ weight.T
        return numbers + middle * weight.sum(dim=1) * self._noise((*x.shape[:-1], len(weight)))

    def _noise(self, shape: Sequence[int]) -> Tensor:
        """Random numbers between minus and plus float32's last bit of 1."""
        noise = torch.rand(tuple(shape), generator=self._random, dtype=torch.float64)
        return torch.finfo(torch.float32).eps * (2 * noise - 1)
