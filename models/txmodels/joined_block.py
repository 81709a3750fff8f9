"""A layer that reads the embedded tokens again, beside the hidden states."""

import torch
from torch import Tensor, nn

from txexport.spec import BlockSpec, Cache
from txmodels._sublayers import CACHED_ATTENTIONS, FEED_FORWARDS, STATEFUL
from txmodels.linear import Linear
from txmodels.norm import Norm


class JoinedBlock(nn.Module):
    """Attention and a network over states joined with embeddings, then states (Glorioso et al. 2024, 2)."""

    def __init__(self, spec: BlockSpec, cache: Cache, weighted: bool = False):
        super().__init__()
        width = spec.attention.hidden_size
        self.attention = CACHED_ATTENTIONS[type(spec.attention)](spec.attention, cache, weighted)
        self.attention_norm = Norm(spec.input_norm)
        self.feed_forward = FEED_FORWARDS[type(spec.feed_forward)](spec.feed_forward)
        self.feed_forward_norm = Norm(spec.norm)
        self.project = Linear(width, width, False)
        self.beside = STATEFUL[type(spec.beside)](spec.beside)
        self.beside_norm = Norm(spec.norm)

    def forward(
        self, x: Tensor, states: dict[str, Tensor | None], embedded: Tensor, **context: Tensor | None
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), inputs of the sublayer with states, embedded (B,S,W), other inputs of attention.

        Returns y (B,S,W), k and v (B,K,T,H), the states, and if `weighted` weights (B,N,S,T).
        """
        joined = torch.cat([x, embedded], dim=2)  # (B, S, 2W)
        mixed, k, v, *weights = self.attention(self.attention_norm(joined), **context)
        fed = self.feed_forward(self.feed_forward_norm(mixed))
        inner = self.beside_norm(x + self.project(fed))
        changed, *present = self.beside(inner, **states)
        y = x + changed  # (B, S, W)
        return y, k, v, *present, *weights
