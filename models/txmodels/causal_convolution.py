"""Convolutions of each channel over the last tokens, which keep their last inputs between steps."""

import torch
from torch import Tensor, nn


class CausalConvolution(nn.Module):
    """A convolution of each channel over the token and those before it (LeCun et al. 1989).

    Its state are the last inputs of each row, of which the first is no longer read.
    """

    def __init__(self, width: int, kernel: int, bias: bool):
        super().__init__()
        self.kernel = kernel
        self.weight = nn.Parameter(torch.empty(width, 1, kernel))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor, past: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,S,W), past (B,W,K), ends (B) the tokens up to the last of each row -> y (B,S,W), present."""
        inputs = torch.cat([past.mT, x], dim=1)  # (B, K+S, W)
        taps = self.weight.unbind(2)  # (W, 1)
        y = tap(self.kernel, inputs, taps[0], 0)  # (B, S, W)
        for at in range(1, self.kernel):
            y = y + tap(self.kernel, inputs, taps[at], at)
        if self.bias is not None:
            y = y + self.bias
        return y, last_inputs(inputs, ends, torch.arange(self.kernel, device=ends.device))


def tap(kernel: int, inputs: Tensor, weight: Tensor, at: int) -> Tensor:
    """inputs (B,K+S,W), weight (W,1) -> the products (B,S,W) of those at a place of the kernel."""
    stop = inputs.shape[1] + at + 1 - kernel
    product: Tensor = inputs[:, at + 1 : stop] * weight[:, 0]
    return product


def last_inputs(inputs: Tensor, ends: Tensor, steps: Tensor) -> Tensor:
    """inputs (B,K+S,W), of which `ends` (B) new ones are a row's, steps (K) from 0 -> present (B,W,K)."""
    picks = ends[:, None] + steps  # (B, K)
    present = inputs.gather(1, picks[:, :, None].expand(-1, -1, inputs.shape[2])).mT  # (B, W, K)
    return present
