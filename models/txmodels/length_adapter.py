"""Layers that shorten the output of a stack: convolutions with a stride (Li et al. 2021, 3.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import AttentionSpec, BlockSpec, FeedForwardSpec, LengthAdapterSpec
from txmodels.attention import Attention
from txmodels.feedforward import FeedForward
from txmodels.gated_convolution import GatedConvolution
from txmodels.linear import Linear
from txmodels.mask import padding_mask
from txmodels.norm import Norm

HALF = 0.5  # of the output of the first feed-forward network


class ShortenedMask(nn.Module):
    """The mask behind a convolution: 1 for as many vectors as its row would have without padding."""

    def __init__(self, spec: LengthAdapterSpec):
        super().__init__()
        self.spec = spec

    def forward(self, mask: Tensor) -> Tensor:
        """mask (B,S) of 0 and 1 -> shortened (B,S')."""
        more = 2 * self.spec.padding - self.spec.kernel
        lengths = (mask.sum(1, keepdim=True) + more) // self.spec.stride + 1  # (B, 1)
        order = torch.arange(self.spec.after(mask.shape[1]), device=mask.device)  # (S')
        shortened = (order < lengths).long()  # (B, S')
        return shortened


class AdapterBlock(nn.Module):
    """Attention over one convolution, with another as the residual, then feed-forward."""

    def __init__(self, spec: LengthAdapterSpec):
        super().__init__()
        block = spec.block
        assert isinstance(block, BlockSpec)
        assert isinstance(block.attention, AttentionSpec)
        assert isinstance(block.feed_forward, FeedForwardSpec)
        self.residual_norm = Norm(block.norm)
        self.residual = GatedConvolution(spec.hidden_size, *spec.convolution)
        self.attention_norm = Norm(block.norm)
        self.convolution = GatedConvolution(spec.hidden_size, *spec.convolution)
        self.attention = Attention(block.attention)
        self.feed_forward_norm = Norm(block.norm)
        self.feed_forward = FeedForward(block.feed_forward)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B,S,W), mask (B,S') of the shortened vectors -> y (B,S',W)."""
        residual = self.residual(self.residual_norm(x))  # (B, S', W)
        inner = self.convolution(self.attention_norm(x))  # (B, S', W)
        [mixed] = self.attention(inner, padding_mask(mask, inner), None, None)
        attended = residual + mixed
        y: Tensor = attended + self.feed_forward(self.feed_forward_norm(attended))
        return y


class HalfFeedForward(nn.Module):
    """Half of a feed-forward network's output, added to its input."""

    def __init__(self, spec: FeedForwardSpec):
        super().__init__()
        self.feed_forward = FeedForward(spec)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> y (B,S,W)."""
        y: Tensor = x + HALF * self.feed_forward(x)
        return y


class LengthAdapter(nn.Module):
    """All layers behind a stack."""

    def __init__(self, spec: LengthAdapterSpec, hidden_size: int):
        super().__init__()
        self.spec, layers = spec, range(spec.num_layers)
        if spec.feed_forward is not None:
            self.before = HalfFeedForward(spec.feed_forward)
        if spec.norm is not None:
            self.project, self.norm = Linear(hidden_size, spec.hidden_size), Norm(spec.norm)
        self.shortened_mask = ShortenedMask(spec)
        if spec.block is None:
            self.convolutions = nn.ModuleList(
                GatedConvolution(spec.hidden_size, *spec.convolution) for _ in layers
            )
        else:
            self.layers = nn.ModuleList(AdapterBlock(spec) for _ in layers)

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """x (B,S,hidden_size), mask (B,S) -> y (B,S',W), mask (B,S'); None where there is none."""
        if self.spec.feed_forward is not None:
            x = self.before(x)
        if self.spec.norm is not None:
            x = self.norm(self.project(x))  # (B, S, W)
        for layer in self.convolutions if self.spec.block is None else self.layers:
            mask = None if mask is None else self.shortened_mask(mask)
            x = layer(x) if self.spec.block is None else layer(x, mask)
        return x, mask
