"""A dense network beside a mixture of experts."""

from torch import Tensor, nn

from txexport.spec import DenseAndExpertsSpec
from txmodels.experts import Router, chosen
from txmodels.feedforward import FeedForward
from txmodels.norm import Norm


class DenseAndExperts(nn.Module):
    """A network and experts that read one residual by norms of their own (Gemma Team 2026)."""

    def __init__(self, spec: DenseAndExpertsSpec):
        super().__init__()
        self.width, self.of_experts = spec.hidden_size, spec.experts
        self.dense, self.router = FeedForward(spec.dense), Router(spec.experts)
        experts = (FeedForward(spec.experts.expert) for _ in range(spec.experts.num_experts))
        self.experts = nn.ModuleList(experts)
        self.dense_post_norm, self.router_norm = Norm(spec.norm), Norm(spec.norm)
        self.experts_norm, self.experts_post_norm = Norm(spec.norm), Norm(spec.norm)

    def forward(self, residual: Tensor, x: Tensor) -> Tensor:
        """The sublayer's input as it is, and normalised, both (B,S,W) -> y (B,S,W)."""
        dense = self.dense_post_norm(self.dense(x))  # (B, S, W)
        share, choice = self.router(self.router_norm(residual) * self.width**-0.5)
        mixed = chosen(self.of_experts, self.experts, self.experts_norm(residual), share, choice)  # (B, S, W)
        y: Tensor = dense + self.experts_post_norm(mixed)
        return y
