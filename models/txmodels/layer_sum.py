"""A weighted sum of the hidden states of all layers."""

import torch
from torch import Tensor, nn


class LayerSum(nn.Module):
    """The sum of all layers' hidden states, with learned weights (Peters et al. 2018, 3.2)."""

    def __init__(self, count: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count))

    def forward(self, states: dict[str, Tensor]) -> Tensor:
        """Hidden states (B,S,W), in order -> x (B,S,W)."""
        shares = torch.softmax(self.weight, dim=0)
        parts = [state * shares[layer] for layer, state in enumerate(states.values())]
        x = parts[0]  # (B, S, W)
        for part in parts[1:]:
            x = x + part
        return x
