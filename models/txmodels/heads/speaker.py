"""A speaker's vector by time-delay layers (Snyder et al. 2018)."""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec
from txmodels.heads._transform import Tokens
from txmodels.linear import Linear


class SpeakerHead(nn.Module):
    """A speaker's vector by time-delay layers (Snyder et al. 2018, 2.1), and scores projected from it."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__()
        assert spec.time_delay is not None
        self.spec = delay = spec.time_delay
        self.narrow = Linear(hidden_size, delay.sizes[0])
        inputs = (delay.sizes[0], *delay.sizes)
        self.layers = nn.ModuleList(
            Linear(kernel * inner, size)
            for inner, size, kernel in zip(inputs, delay.sizes, delay.kernels, strict=False)
        )
        self.vector = Linear(2 * delay.sizes[-1], delay.vector_size)
        self.scores = Linear(delay.vector_size, spec.labels)

    def forward(self, x: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B,S,W), attention_mask (B,S) or None -> logits (B,labels), embeddings (B,D)."""
        frames = self.narrow(x)
        for layer, kernel, dilation in zip(self.layers, self.spec.kernels, self.spec.dilations, strict=True):
            count = frames.shape[1] - (kernel - 1) * dilation
            beside = [frames[:, step * dilation : step * dilation + count] for step in range(kernel)]
            frames = torch.relu(layer(torch.cat(beside, dim=2)))  # (B, S - lost, size)
        order = torch.arange(frames.shape[1], device=x.device)
        real = torch.ones_like(frames[:, :, 0], dtype=torch.bool)
        if attention_mask is not None:
            real = order < attention_mask.sum(dim=1, keepdim=True) - self.spec.lost_without_dilation
        weights = real.to(x.dtype)[:, :, None]  # (B, S - lost, 1)
        count = weights.sum(dim=1, keepdim=True)  # (B, 1, 1)
        mean = (frames * (weights / count)).sum(dim=1)  # (B, size)
        offsets = frames - mean[:, None]
        variance = (offsets * offsets * (weights / (count - 1))).sum(dim=1)
        embeddings = self.vector(torch.cat([mean, variance.sqrt()], dim=1))
        logits = self.scores(embeddings)
        return logits, embeddings

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: logits (B,labels) and embeddings (B,D)."""
        logits, embeddings = self(x, tokens[1])
        return {names.LOGITS: logits, names.EMBEDDINGS: embeddings}


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> SpeakerHead:
    """The head of a model's spec."""
    return SpeakerHead(spec, hidden_size)
