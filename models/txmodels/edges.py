"""Boxes from distributions of their edges (Peng et al. 2024, 4.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import EdgesSpec


class EdgeBoxes(nn.Module):
    """First boxes with edges moved by the mean of each distribution; `scale` and `reach` are learned."""

    def __init__(self, spec: EdgesSpec):
        super().__init__()
        self.bins = spec.bins
        self.scale, self.reach = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))

    def forward(self, first: Tensor, scores: Tensor) -> Tensor:
        """first boxes (B,Q,4), scores of edges (B,Q,4*(bins+1)) -> boxes (B,Q,4)."""
        shares = edge_shares(self.bins, scores)  # (B, Q, 4, bins + 1)
        distances = edge_distances(self.bins, self.scale, self.reach).to(shares)
        before, behind = torch.matmul(shares, distances).chunk(2, dim=2)  # (B, Q, 2)
        centre, extent = first.chunk(2, dim=2)
        scale = self.scale.abs()
        step, half = extent / scale, 0.5 * scale
        start, end = centre - (half + before) * step, centre + (half + behind) * step
        boxes = torch.cat([(start + end) / 2, end - start], dim=2)
        return boxes


def edge_distances(bins: int, scale: Tensor, reach: Tensor) -> Tensor:
    """The learned numbers (1) -> the offsets (bins+1) of scores (Peng et al. 2024, equation 5)."""
    scale, reach = scale.to(torch.get_default_dtype()), reach.to(torch.get_default_dtype())
    most = reach.abs() * scale.abs()
    base = (most + 1) ** (2 / (bins - 2))
    steps = torch.arange(1 - bins // 2, bins // 2, device=scale.device).to(most)
    inner = (base ** steps.abs() - 1) * steps.sign()
    distances = torch.cat([-2 * most, inner, 2 * most])
    return distances


def edge_shares(bins: int, scores: Tensor) -> Tensor:
    """Scores of edges (B,Q,4*(bins+1)) -> probabilities (B,Q,4,bins+1)."""
    shares = scores.unflatten(2, (4, bins + 1)).softmax(3)
    return shares
