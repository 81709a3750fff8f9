"""One layer of a Conformer."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    FeedForwardSpec,
    RelativeKeyAttentionSpec,
    RotatedInputAttentionSpec,
    SignalStackSpec,
    SinusoidVectorsSpec,
    TransformerXLAttentionSpec,
)
from txmodels.attention import Attention
from txmodels.conformer_convolution import ConformerConvolution
from txmodels.feedforward import FeedForward
from txmodels.norm import Norm
from txmodels.position import positions, rotation
from txmodels.relative_key_attention import RelativeKeyAttention, clipped_distances
from txmodels.rotated_input_attention import RotatedInputAttention
from txmodels.transformer_xl_attention import TransformerXLAttention, sinusoid_vectors

Values = dict[str, Tensor | None]

ATTENTIONS: dict[type, Callable[..., nn.Module]] = {
    AttentionSpec: Attention,
    TransformerXLAttentionSpec: TransformerXLAttention,
    RelativeKeyAttentionSpec: RelativeKeyAttention,
    RotatedInputAttentionSpec: RotatedInputAttention,
}
HALF = 0.5  # of the output of each feed-forward network


def distance_context(spec: SignalStackSpec, x: Tensor) -> dict[BlockSpec, Values]:
    """x (B,S,W) -> for each Conformer block the inputs of its attention that distances alone determine."""
    contexts: dict[BlockSpec, Values] = {}
    for block in spec.blocks:
        if block.convolution is None:
            continue
        match block.attention:
            case RelativeKeyAttentionSpec() as kind:
                contexts[block] = {"of_query": clipped_distances(kind, x)}
            case TransformerXLAttentionSpec() as kind:
                assert isinstance(spec.relative, SinusoidVectorsSpec)
                vectors, of_query = sinusoid_vectors(spec.relative, x)
                contexts[block] = {"vectors": vectors, "of_query": of_query}
            case RotatedInputAttentionSpec() as kind:
                order = positions(x, torch.zeros(x.shape[0], dtype=torch.int64, device=x.device))  # (B, S)
                cos, sin = rotation(kind.rotary, order)
                contexts[block] = {"cos": cos, "sin": sin}
            case AttentionSpec():
                contexts[block] = {"cos": None, "sin": None}
    return contexts


class ConformerBlock(nn.Module):
    """Half feed-forward, attention, convolution, half feed-forward, norm (Gulati et al. 2020, 2.4)."""

    def __init__(self, spec: BlockSpec, weighted: bool = False):
        super().__init__()
        assert spec.convolution is not None
        assert isinstance(spec.feed_forward, FeedForwardSpec)
        self.feed_forward_norm = Norm(spec.norm)
        self.feed_forward = FeedForward(spec.feed_forward)
        self.attention_norm = Norm(spec.norm)
        self.attention = ATTENTIONS[type(spec.attention)](spec.attention, weighted)
        self.convolution_norm = Norm(spec.norm)
        self.convolution = ConformerConvolution(spec.convolution)
        self.last_feed_forward_norm = Norm(spec.norm)
        self.last_feed_forward = FeedForward(spec.feed_forward)
        self.final_norm = Norm(spec.norm)

    def forward(
        self, x: Tensor, attention_mask: Tensor | None, **context: Tensor | None
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), attention_mask (B,S), the other inputs of attention -> y (B,S,W), weights (B,N,S,S)."""
        x = x + HALF * self.feed_forward(self.feed_forward_norm(x))  # (B, S, W)
        mixed, *weights = self.attention(self.attention_norm(x), **context)
        x = x + mixed
        x = x + self.convolution(self.convolution_norm(x), attention_mask)
        x = x + HALF * self.last_feed_forward(self.last_feed_forward_norm(x))
        y: Tensor = self.final_norm(x)
        return y, *weights
