"""A mixture of feed-forward networks; each token takes a few of them."""

import torch
from torch import Tensor, nn

from txexport.spec import ExpertsSpec
from txmodels.feedforward import FeedForward
from txmodels.linear import Linear


class Router(Linear):
    """The router: the experts of each token and their weights (Jiang et al. 2024, 2.1)."""

    def __init__(self, spec: ExpertsSpec):
        super().__init__(spec.hidden_size, spec.num_experts, bias=spec.router_bias)
        self.top_k, self.normalised, self.scale = spec.top_k, spec.normalised, spec.scale
        self.num_groups, self.top_groups, self.corrected = spec.num_groups, spec.top_groups, spec.corrected
        self.jitter, self.sum_eps, self.softmax_scores = spec.jitter, spec.sum_eps, spec.softmax_scores
        self.sigmoid, self.capacity = spec.sigmoid, spec.capacity
        self.expert_scale = nn.Parameter(torch.ones(spec.num_experts)) if spec.expert_scale else None
        if spec.corrected:
            self.correction = nn.Parameter(torch.zeros(spec.num_experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """x (B,S,W) -> weights and indices of the chosen experts, both (B*S,C)."""
        scores = super().forward(x.flatten(0, 1))  # (B*S, experts)
        if self.corrected:
            scores = scores.softmax(dim=-1) if self.softmax_scores else scores.sigmoid()
            share, choice = self._corrected(scores)
        elif self.jitter is not None:
            share, choice = self._near_ones(scores, self.jitter)
        elif self.sigmoid:
            share, choice = self._sigmoid(scores)
        else:
            if not self.normalised:
                scores = scores.softmax(dim=-1)
            best, choice = self._within_groups(scores, 1).topk(self.top_k, dim=-1)  # (B*S, C)
            share = best.softmax(dim=-1) if self.normalised else best
        if self.scale != 1:
            share = share * self.scale
        if self.expert_scale is not None:
            share = share * self.expert_scale[choice]
        if self.capacity is not None:
            choice = self._within_capacity(choice.view(*x.shape[:2], 1), self.capacity)
        return share, choice

    def _within_capacity(self, choice: Tensor, capacity: int) -> Tensor:
        """choice (B,S,1) -> (B*S,1): no expert's number where `capacity` tokens before it chose the same."""
        experts = self.weight.shape[0]
        taken = (choice == torch.arange(experts, device=choice.device)).long()  # (B, S, experts)
        rank = taken.cumsum(dim=1).gather(2, choice)  # (B, S, 1)
        return choice.masked_fill(rank > capacity, experts).flatten(0, 1)

    def _corrected(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores (B*S,experts) -> the best with e_score_correction_bias, and their indices, both (B*S,C)."""
        ranked = self._within_groups(scores + self.correction, 2)
        _, choice = ranked.topk(self.top_k, dim=-1)  # (B*S, C)
        share = scores.gather(1, choice)
        if self.normalised:
            share = share / (share.sum(dim=-1, keepdim=True) + self.sum_eps)
        return share, choice

    def _sigmoid(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores (B*S,experts) -> sigmoids of the best, and their indices, both (B*S,C)."""
        best, choice = scores.topk(self.top_k, dim=-1)  # (B*S, C)
        share = best.sigmoid()
        if self.normalised:
            share = share / share.sum(dim=-1, keepdim=True)
        return share, choice

    def _near_ones(self, scores: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
        """scores (B*S,experts) -> SparseMixer weights of the best ones, and their indices, (B*S,C)."""
        best, choice = scores.topk(self.top_k, dim=-1)  # (B*S, C)
        left, shares = scores, []
        for place in range(self.top_k):
            own, number = best[:, place : place + 1], choice[:, place : place + 1]  # (B*S, 1)
            far = (own - scores) / scores.abs().maximum(own) > 2 * jitter  # (B*S, experts)
            near = left.masked_fill(far, -3.0e38).softmax(dim=-1)
            shares.append(near.gather(1, number))
            left = left.scatter(1, number, -3.0e38)
        share = torch.cat(shares, dim=1)  # (B*S, C)
        return share, choice

    def _within_groups(self, scores: Tensor, best: int) -> Tensor:
        """scores (B*S,experts) -> scores, masked outside the groups whose `best` scores add up highest."""
        if self.num_groups == 1:
            return scores
        groups = scores.unflatten(1, (self.num_groups, -1))  # (B*S, groups, size)
        merits = groups.topk(best, dim=-1).values.sum(dim=-1)  # (B*S, groups)
        _, chosen = merits.topk(self.top_groups, dim=-1)
        kept = torch.zeros_like(merits, dtype=torch.bool).scatter(1, chosen, True)
        return groups.masked_fill(~kept[:, :, None], -3.0e38).flatten(1)


def chosen(spec: ExpertsSpec, experts: nn.ModuleList, x: Tensor, share: Tensor, choice: Tensor) -> Tensor:
    """x (B,S,W), share and choice (B*S,C) -> the sum (B,S,W) of what the chosen experts give.

    Rows are ordered by experts, so that all but the products is done once for all of them.
    """
    numbers = torch.arange(len(experts), device=choice.device)[:, None, None]
    taken = choice == numbers  # (experts, B*S, C)
    _, token, place = taken.nonzero(as_tuple=True)  # (R), by experts
    sizes = taken.sum((1, 2)).tolist()
    rows, weight = x.flatten(0, 1)[token], share[token, place, None]  # (R, W), (R, 1)

    def project(part: str, x: Tensor) -> Tensor:
        pairs = zip(experts, x.split(sizes), strict=True)
        return torch.cat([getattr(expert, part)(piece) for expert, piece in pairs])  # (R, out)

    first = experts[0]
    assert isinstance(first, FeedForward)
    parts = first.network(project, rows * weight if spec.weighted_inputs else rows)  # (R, W)
    parts = parts if spec.weighted_inputs else parts * weight
    total = torch.zeros_like(x).flatten(0, 1).index_add(0, token, parts)
    return total.view_as(x)


class Experts(nn.Module):
    """A router and its experts (Shazeer et al. 2017, 2; Jiang et al. 2024, 2.1)."""

    def __init__(self, spec: ExpertsSpec):
        super().__init__()
        self.router = Router(spec)
        self.experts = nn.ModuleList(FeedForward(spec.expert) for _ in range(spec.num_experts))
        self.spec, self.is_latent = spec, spec.token_size is not None
        if spec.token_size is not None:
            self.latent_down = Linear(spec.token_size, spec.expert.hidden_size, bias=False)
            self.latent_up = Linear(spec.expert.hidden_size, spec.token_size, bias=False)
        if spec.shared is not None:
            if spec.shared_gated:
                self.shared_router = Linear(spec.hidden_size, 1, bias=False)
            self.shared = FeedForward(spec.shared)
        self.is_shared, self.shared_gated = spec.shared is not None, spec.shared_gated
        self.bias = nn.Parameter(torch.zeros(spec.hidden_size)) if spec.output_bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> y (B,S,W)."""
        share, choice = self.router(x)
        inner = self.latent_down(x) if self.is_latent else x  # (B, S, L)
        y = chosen(self.spec, self.experts, inner, share, choice)  # (B, S, L)
        y = self.latent_up(y) if self.is_latent else y  # (B, S, W)
        if self.is_shared:
            shared = self.shared(x)
            if self.shared_gated:
                shared = self.shared_router(x).sigmoid() * shared
            y = y + shared
        if self.bias is not None:
            y = y + self.bias
        return y
