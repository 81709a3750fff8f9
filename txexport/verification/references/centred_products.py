"""What float32 may leave of a product that takes the middle off each row, and puts it back.

`Int8Centred` computes x W as (x - m) W + m sum(W), with m the middle between a row's smallest and largest
number. What is subtracted rounds as if the numbers of x were off by a last bit of m, and the two terms, which
cancel, by a last bit of m sum(W), however small the result.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class CentredProducts(TorchFunctionMode):
    """Products of rows (..., in) in float64, off by what centring rounds in float32.

    They are those with matrices that give no more numbers than they take, which int8 centres.
    """

    def __init__(self, random: torch.Generator):
        super().__init__()
        self._random = random

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of a function of PyTorch."""
        y = func(*args, **(kwargs or {}))
        if func is nn.functional.linear:
            x, weight = args[:2]  # (out, in)
        elif func is torch.addmm:  # of transformers' Conv1D
            x, weight = args[1], args[2].T
        else:
            return y
        return y + self._off(x, weight) if weight.ndim == 2 and weight.shape[0] <= weight.shape[1] else y

    def _off(self, x: Tensor, weight: Tensor) -> Tensor | float:
        """What rounding leaves of x (..., in) times the matrix (out, in): (..., out)."""
        if not x.numel():
            return 0.0
        middle = (x.amax(dim=-1, keepdim=True) + x.amin(dim=-1, keepdim=True)) / 2
        numbers = (middle * self._noise(x.shape)) @ weight.T
        return numbers + middle * weight.sum(dim=1) * self._noise((*x.shape[:-1], len(weight)))

    def _noise(self, shape: Sequence[int]) -> Tensor:
        """Numbers up to float32's last bit of 1, either way."""
        noise = torch.rand(tuple(shape), generator=self._random, dtype=torch.float64)
        return torch.finfo(torch.float32).eps * (2 * noise - 1)
