"""Several vectors of each token, of which a layer reads the first (Baykal et al. 2023, AltUp)."""

import torch
from torch import Tensor, nn

from txexport.spec import StreamsSpec
from txmodels.linear import Linear
from txmodels.norm import Norm


class ExpandedStreams(nn.Module):
    """A token's vector, and projections of it that are as long."""

    def __init__(self, spec: StreamsSpec, hidden_size: int):
        super().__init__()
        self.project = nn.ModuleList(Linear(hidden_size, hidden_size, False) for _ in range(1, spec.count))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> streams (B,S,A,W)."""
        others = [as_long_as(project(x), x) for project in self.project]
        streams = torch.stack([x, *others], dim=2)  # (B, S, A, W)
        return streams


class MergedStreams(nn.Module):
    """The mean of the first vector, and of projections of the others that are as long."""

    def __init__(self, spec: StreamsSpec, hidden_size: int):
        super().__init__()
        self.project = nn.ModuleList(Linear(hidden_size, hidden_size, False) for _ in range(1, spec.count))

    def forward(self, streams: Tensor) -> Tensor:
        """streams (B,S,A,W) -> y (B,S,W)."""
        first, *others = streams.unbind(2)  # (B, S, W) each
        total = first
        for project, other in zip(self.project, others, strict=True):
            total = total + as_long_as(project(other), first)
        y = total * (1 / streams.shape[2])  # (B, S, W)
        return y


def as_long_as(x: Tensor, like: Tensor) -> Tensor:
    """x (B,S,W) scaled to the root mean square of like (B,S,W); that of x counts as 1e-5 ** 0.5 or more."""
    target = like.square().mean(-1, keepdim=True).sqrt()  # (B, S, 1)
    present = x.square().mean(-1, keepdim=True).clamp(min=1e-5).sqrt()  # (B, S, 1)
    y = x * target / present
    return y


class StreamRouter(nn.Module):
    """Scores of the vectors: tanh of a projection of one of them, normalised and divided by its width."""

    def __init__(self, spec: StreamsSpec):
        super().__init__()
        self.norm = Norm(spec.norm)
        self.project = Linear(spec.norm.size, spec.count, False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> scores (B,S,A)."""
        scores: Tensor = torch.tanh(self.project(self.norm(x) * (1 / x.shape[-1])))
        return scores


class PredictedStreams(nn.Module):
    """Each vector plus a weighted sum of all."""

    def __init__(self, spec: StreamsSpec):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(spec.count**2, spec.count))

    def forward(self, streams: Tensor, scores: Tensor) -> Tensor:
        """streams (B,S,A,W), scores (B,S,A) -> predicted (B,S,A,W)."""
        weights = nn.functional.linear(scores, self.weight).unflatten(2, (-1, scores.shape[-1]))
        predicted: Tensor = weights @ streams + streams  # (B, S, A, A), (B, S, A, W)
        return predicted


class CorrectedStreams(nn.Module):
    """Each vector plus a share of what a layer's output differs from the first one by."""

    def __init__(self, spec: StreamsSpec):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(spec.count, spec.count))

    def forward(self, predicted: Tensor, y: Tensor, scores: Tensor) -> Tensor:
        """predicted (B,S,A,W), y (B,S,W), scores (B,S,A) -> corrected (B,S,A,W)."""
        shares = nn.functional.linear(scores, self.weight) + 1  # (B, S, A)
        difference = y - predicted[:, :, 0]  # (B, S, W)
        corrected: Tensor = difference[:, :, None] * shares[..., None] + predicted  # (B, S, A, W)
        return corrected
