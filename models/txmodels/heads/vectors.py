"""The vector of a sequence beside its hidden states."""

import torch
from torch import Tensor, nn

from txexport.spec import VectorSpec
from txmodels.attention_pool import AttentionPool
from txmodels.heads.pick import pick
from txmodels.linear import Linear
from txmodels.norm import Norm


class Pooler(nn.Module):
    """Dense and tanh over the first token (Devlin et al. 2019, 3.1)."""

    def __init__(self, hidden_size: int):
        super().__init__()
        self.dense = Linear(hidden_size, hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> pooled (B,W)."""
        first = x[:, 0]  # (B, W)
        pooled = torch.tanh(self.dense(first))  # (B, W)
        return pooled


class SequenceVector(nn.Module):
    """One vector of a sequence, normalised and projected (Radford et al. 2021, 2.4), or attention-pooled."""

    def __init__(self, spec: VectorSpec, hidden_size: int):
        super().__init__()
        self.pool = AttentionPool(spec.pool) if spec.pool is not None else None
        self.pick, self.token = spec.pick, spec.pick_argument
        self.norm = Norm(spec.norm) if spec.norm is not None else nn.Identity()
        self.project = Linear(hidden_size, spec.size, spec.bias) if spec.size else nn.Identity()

    def forward(self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        """x (B,S,W), input_ids and attention_mask (B,S) -> vector (B,size)."""
        if self.pool is not None:
            pooled: Tensor = self.pool(x)  # (B, W)
            return pooled
        picked = pick(self.pick, self.token, x, input_ids, attention_mask)  # (B, W)
        normed = self.norm(picked)  # (B, W)
        vector: Tensor = self.project(normed)  # (B, size)
        return vector
