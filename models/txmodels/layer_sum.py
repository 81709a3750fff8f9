"""One sequence of vectors of those that all layers give."""

import torch
from torch import Tensor, nn


class LayerSum(nn.Module):
    """The sum of what the first layer reads and each gives, by learned shares (Peters et al. 2018, 3.2)."""

    def __init__(self, count: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count))

    def forward(self, states: dict[str, Tensor]) -> Tensor:
        """States (B,S,W) of each, in order -> x (B,S,W)."""
        shares = torch.softmax(self.weight, dim=0)
        parts = [state * shares[layer] for layer, state in enumerate(states.values())]
        x = parts[0]  # (B, S, W)
        for part in parts[1:]:
            x = x + part
        return x
