"""What stands on top of a stack."""

import torch
from torch import Tensor, nn

from txexport.spec import HeadSpec
from txmodels.activation import activation
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


class MaskedLMHead(nn.Module):
    """Scores of every word at every position (Devlin et al. 2019, 3.1)."""

    def __init__(self, spec: HeadSpec, hidden_size: int, vocab_size: int):
        super().__init__()
        assert spec.activation is not None
        assert spec.norm is not None
        self.act = activation(spec.activation)
        self.dense = Linear(hidden_size, spec.norm.size)
        self.norm = Norm(spec.norm)
        self.weight = None if spec.tied else nn.Parameter(torch.empty(vocab_size, spec.norm.size))
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if spec.bias else None

    def forward(self, x: Tensor, word: Tensor) -> Tensor:
        """x (B,S,W), word matrix (V,W) -> logits (B,S,V)."""
        shaped = self.norm(self.act(self.dense(x)))  # (B, S, W)
        weight = word if self.weight is None else self.weight
        logits = nn.functional.linear(shaped, weight, self.bias)  # (B, S, V)
        return logits


class CausalLMHead(nn.Module):
    """Scores of the next word (Radford et al. 2018, 3.1), at the positions asked for."""

    def __init__(self, spec: HeadSpec, hidden_size: int, vocab_size: int):
        super().__init__()
        self.scale = spec.scale
        self.weight = None if spec.tied else nn.Parameter(torch.empty(vocab_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if spec.bias else None

    def forward(self, x: Tensor, logits_indices: Tensor | None, word: Tensor) -> Tensor:
        """x (B,S,W), logits_indices (B,L) or None for all, word matrix (V,W) -> logits (B,L,V)."""
        if logits_indices is not None:
            x = x.gather(1, logits_indices[:, :, None].expand(-1, -1, x.shape[2]))  # (B, L, W)
        if self.scale != 1:
            x = x * self.scale
        weight = word if self.weight is None else self.weight
        logits = nn.functional.linear(x, weight, self.bias)  # (B, L, V)
        return logits


class SequenceHead(nn.Module):
    """Scores of a whole sequence's labels, from its first token (Devlin et al. 2019, 3.2)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__()
        assert spec.activation is not None
        self.act = activation(spec.activation)
        self.weight = nn.Parameter(torch.empty(spec.labels, hidden_size))
        self.bias = nn.Parameter(torch.zeros(spec.labels)) if spec.bias else None
        self.dense = Linear(hidden_size, hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> logits (B,labels)."""
        first = x[:, 0]  # (B, W)
        pooled = self.act(self.dense(first))  # (B, W)
        logits = nn.functional.linear(pooled, self.weight, self.bias)  # (B, labels)
        return logits


class TokenHead(nn.Module):
    """Scores of every token's labels (Devlin et al. 2019, 5.3)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(spec.labels, hidden_size))
        self.bias = nn.Parameter(torch.zeros(spec.labels)) if spec.bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> logits (B,S,labels)."""
        logits = nn.functional.linear(x, self.weight, self.bias)  # (B, S, labels)
        return logits


class SpanHead(nn.Module):
    """How well an answer starts and ends at every token (Devlin et al. 2019, 4.2)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(spec.labels, hidden_size))
        self.bias = nn.Parameter(torch.zeros(spec.labels)) if spec.bias else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,S,W) -> start_logits and end_logits (B,S)."""
        both = nn.functional.linear(x, self.weight, self.bias)  # (B, S, 2)
        start_logits, end_logits = both.unbind(-1)  # (B, S)
        return start_logits, end_logits
