"""Causal language modelling (Radford et al. 2018, 3.1)."""

import torch
from torch import Tensor

from txexport.spec import HeadSpec
from txmodels.heads._transform import Transform
from txmodels.position import asked


class CausalLMHead(Transform):
    """Scores of the next token (Radford et al. 2018, 3.1) at the requested positions."""

    def __init__(self, spec: HeadSpec, hidden_size: int, vocab_size: int):
        super().__init__(spec, hidden_size, vocab_size)
        self.scale, self.softcap = spec.scale, spec.softcap

    def forward(self, x: Tensor, logits_indices: Tensor | None, word: Tensor) -> Tensor:
        """x (B,S,W), logits_indices (B,L) or None for all, word embedding (V,W) -> logits (B,L,V)."""
        x = self.shape(asked(x, logits_indices))  # (B, L, W)
        if self.scale != 1:
            x = x * self.scale
        logits = self.project(x, word)  # (B, L, V)
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits
