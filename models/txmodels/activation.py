"""Pointwise non-linearities."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from txexport.spec import Activation


def _quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


def _relu_squared(x: Tensor) -> Tensor:
    return F.relu(x).square()


def activation(kind: Activation) -> Callable[[Tensor], Tensor]:
    """The function x (...) -> y (...) of `kind`."""
    functions: dict[Activation, Callable[[Tensor], Tensor]] = {
        Activation.GELU: F.gelu,
        Activation.GELU_TANH: partial(F.gelu, approximate="tanh"),
        Activation.RELU: F.relu,
        Activation.QUICK_GELU: _quick_gelu,
        Activation.SILU: F.silu,
        Activation.TANH: torch.tanh,
        Activation.RELU_SQUARED: _relu_squared,
    }
    return functions[kind]


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), as exactly where exp(x) is small."""
    y = x.clamp(min=0) + torch.log1p((-x.abs()).exp())
    return y
