"""What stands on top of a stack."""

import torch
from torch import Tensor, nn

from txexport.spec import HeadSpec, Pick, VectorSpec
from txmodels.activation import activation
from txmodels.attention_pool import AttentionPool
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.position import asked


def pick(
    kind: Pick, token: int | None, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None
) -> Tensor:
    """One vector of each sequence: x (B,S,W), input_ids and attention_mask (B,S) -> picked (B,W).

    `token` is the id of padding for LAST, of what ends a text for LAST_EOS and FIRST_EOS; only the kinds that
    read ids or the mask need them. FIRST_AND_MEAN gives (B,2W), of which `token` are left out of the mean, as
    of MEAN_BEHIND's.
    """
    if kind == Pick.FIRST:
        return x[:, 0]
    if kind == Pick.FIRST_TWO:
        return (x[:, 0] + x[:, 1]) * 0.5
    if kind == Pick.FINAL:
        return x[:, -1]
    if kind == Pick.FIRST_AND_MEAN:
        return torch.cat([x[:, 0], x[:, 1 + (token or 0) :].mean(dim=1)], dim=1)
    if kind == Pick.MEAN_BEHIND:
        return x[:, token or 0 :].mean(dim=1)
    if kind in (Pick.MEAN, Pick.MEAN_LATE):
        assert attention_mask is not None
        weights = attention_mask.to(x.dtype)[:, :, None]  # (B, S, 1)
        return (x * weights).sum(dim=1) / weights.sum(dim=1)
    if kind in (Pick.FIRST_SEEN, Pick.LAST_SEEN):
        assert attention_mask is not None
        order = torch.arange(x.shape[1], device=x.device)
        score = attention_mask * (order + 1 if kind == Pick.LAST_SEEN else 1)  # (B, S)
        return x[torch.arange(x.shape[0], device=x.device), score.argmax(dim=1)]
    assert input_ids is not None
    if kind in (Pick.LAST, Pick.LAST_EOS):
        places = torch.arange(x.shape[1], device=x.device).expand_as(input_ids)  # (B, S)
        if token is not None:
            real = input_ids.ne(token) if kind == Pick.LAST else input_ids.eq(token)  # (B, S)
            places = places * real
        place = places.max(dim=1).values  # (B)
    elif kind == Pick.FIRST_EOS:
        assert token is not None
        place = input_ids.eq(token).int().argmax(dim=1)
    else:
        place = input_ids.argmax(dim=1)
    return x[torch.arange(x.shape[0], device=x.device), place]


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
    """One vector of a sequence, normed and projected (Radford et al. 2021, 2.4), or pooled of all."""

    def __init__(self, spec: VectorSpec, hidden_size: int):
        super().__init__()
        self.pool = AttentionPool(spec.pool) if spec.pool is not None else None
        self.pick, self.token = spec.pick, spec.eos_token_id
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


class _Transform(nn.Module):
    """The dense layer, activation and norm that a projection may have before it, and the projection."""

    def __init__(self, spec: HeadSpec, hidden_size: int, outputs: int):
        super().__init__()
        size = spec.projection_size(hidden_size)
        self.weight = None if spec.tied else nn.Parameter(torch.empty(outputs, size))
        self.bias = nn.Parameter(torch.zeros(outputs)) if spec.bias else None
        self.dense = None
        if spec.activation is not None:
            self.act = activation(spec.activation)
            self.dense = Linear(hidden_size, size, spec.dense_bias)
        self.norm = Norm(spec.norm) if spec.norm is not None else nn.Identity()
        factored = spec.factored_size
        self.narrow = Linear(hidden_size, factored, spec.factored_bias) if factored else nn.Identity()

    def shape(self, x: Tensor) -> Tensor:
        """x (...,W) as the projection takes it: as wide, or projected to fewer numbers."""
        if self.dense is not None:
            x = self.act(self.dense(x))
        y: Tensor = self.narrow(self.norm(x))
        return y

    def project(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """x (...,W), a tied head's word matrix (V,W) -> scores (...,V)."""
        weight = word if self.weight is None else self.weight
        assert weight is not None
        return nn.functional.linear(x, weight, self.bias)


class MaskedLMHead(_Transform):
    """Scores of every word at every position (Devlin et al. 2019, 3.1)."""

    def forward(self, x: Tensor, word: Tensor) -> Tensor:
        """x (B,S,W), word matrix (V,W) -> logits (B,S,V)."""
        shaped = self.shape(x)  # (B, S, W)
        logits = self.project(shaped, word)  # (B, S, V)
        return logits


class CausalLMHead(_Transform):
    """Scores of the next word (Radford et al. 2018, 3.1), at the positions asked for."""

    def __init__(self, spec: HeadSpec, hidden_size: int, vocab_size: int):
        super().__init__(spec, hidden_size, vocab_size)
        self.scale, self.softcap = spec.scale, spec.softcap

    def forward(self, x: Tensor, logits_indices: Tensor | None, word: Tensor) -> Tensor:
        """x (B,S,W), logits_indices (B,L) or None for all, word matrix (V,W) -> logits (B,L,V)."""
        x = self.shape(asked(x, logits_indices))  # (B, L, W)
        if self.scale != 1:
            x = x * self.scale
        logits = self.project(x, word)  # (B, L, V)
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits


class SequenceHead(_Transform):
    """Scores of a whole sequence's labels, from one vector of it (Devlin et al. 2019, 3.2)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__(spec, hidden_size, spec.labels)
        self.pick, self.token = spec.pick, spec.sought

    def forward(self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        """x (B,S,W), input_ids and attention_mask (B,S) -> logits (B,labels)."""
        if self.pick == Pick.MEAN_LATE:
            x = self.shape(x)  # (B, S, W)
        shaped = pick(self.pick, self.token, x, input_ids, attention_mask)  # (B, W)
        if self.pick != Pick.MEAN_LATE:
            shaped = self.shape(shaped)  # (B, W)
        logits = self.project(shaped)  # (B, labels)
        return logits


class TokenHead(_Transform):
    """Scores of every token's labels (Devlin et al. 2019, 5.3)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__(spec, hidden_size, spec.labels)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> logits (B,S,labels)."""
        logits = self.project(self.shape(x))  # (B, S, labels)
        return logits


class SpanHead(_Transform):
    """How well an answer starts and ends at every token (Devlin et al. 2019, 4.2)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__(spec, hidden_size, spec.labels)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,S,W) -> start_logits and end_logits (B,S)."""
        both = self.project(self.shape(x))  # (B, S, 2)
        start_logits, end_logits = both.unbind(-1)  # (B, S)
        return start_logits, end_logits
