"""One layer of a stack: each sublayer in its residual and its norm."""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import BlockSpec, Cache, DenseAndExpertsSpec, NormPlacement, StreamsSpec
from txmodels._sublayers import (
    CACHED_ATTENTIONS,
    FEED_FORWARDS,
    SPARSE_ATTENTIONS,
    STATEFUL,
    WEIGHING_ATTENTIONS,
)
from txmodels.adapter import Adapter
from txmodels.attention import CrossAttention
from txmodels.augmented_residual import AugmentedResidual
from txmodels.gate import Gate, Scale
from txmodels.layer_inputs import LayerInput
from txmodels.norm import Norm
from txmodels.position import asked
from txmodels.streams import CorrectedStreams, PredictedStreams, StreamRouter


class _Streams(nn.Module):
    """The parts of a layer that predict and correct a token's vectors."""

    def __init__(self, spec: StreamsSpec):
        super().__init__()
        self.router = StreamRouter(spec)
        self.predict, self.correct = PredictedStreams(spec), CorrectedStreams(spec)
        self.scale = Scale(spec.norm.size) if spec.output_scale else nn.Identity()


def _own_input(context: dict[str, Tensor | None]) -> Tensor | None:
    """A layer's own input (B,S,P), taken out of the inputs of attention; of the requested tokens (B,L,P)."""
    return asked(context.pop("layer_input", None), context.get(names.LOGITS_INDICES))


class _Block(nn.Module):
    """The sublayers that every block has, in its norms and its scale."""

    def __init__(self, spec: BlockSpec, attention: nn.Module, weighted: bool):
        super().__init__()
        self.spec = spec
        self.attention = attention
        if not spec.skip_attention_norm:
            self.attention_norm = Norm(spec.norm)
        if spec.placement in (NormPlacement.SANDWICH, NormPlacement.DOUBLE_POST):
            self.attention_post_norm = Norm(spec.norm)
        if spec.layer_scale:
            self.attention_scale = Scale(spec.attention.hidden_size)
        if spec.gated:
            self.attention_tanh_gate = Gate()
        if spec.cross_attention is not None:
            self.cross_attention = CrossAttention(spec.cross_attention, weighted)
            self.cross_attention_norm = Norm(spec.norm)
            if spec.placement == NormPlacement.SANDWICH:
                self.cross_attention_post_norm = Norm(spec.norm)
        if spec.feed_forward is not None:
            self.feed_forward = FEED_FORWARDS[type(spec.feed_forward)](spec.feed_forward)
            self.feed_forward_norm = Norm(spec.norm)
        if spec.placement == NormPlacement.SANDWICH:
            self.feed_forward_post_norm = Norm(spec.norm)
        if spec.layer_scale:
            self.feed_forward_scale = Scale(spec.attention.hidden_size)
        if spec.gated:
            self.feed_forward_tanh_gate = Gate()
        if spec.adapter is not None:
            self.adapter = Adapter(spec.adapter)
        if spec.layer_input is not None:
            self.layer_input = LayerInput(spec.layer_input)
        if spec.output_scale:
            self.output_scale = Scale(1)
        if spec.augmented_residual is not None:
            self.augmented_residual = AugmentedResidual(spec.augmented_residual)
        if spec.streams is not None:
            self.streams = _Streams(spec.streams)

    def _predicted(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """x (B,S,W), or streams (B,S,A,W) -> what sublayers read (B,S,W), and streams (B,S,A,W)."""
        if self.spec.streams is None:
            return x, None
        streams = self.streams.predict(x, self.streams.router(x[:, :, 0]))  # (B, S, A, W)
        return streams[:, :, 0], streams

    def _before_attention(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> the input of attention (B,S,W)."""
        if not self.spec.placement.before or self.spec.skip_attention_norm:
            return x
        inner: Tensor = self.attention_norm(x)
        return inner

    def _attended(self, x: Tensor, mixed: Tensor) -> Tensor:
        """x (B,S,W) and the output of attention -> their residual sum (B,S,W)."""
        if self.spec.placement == NormPlacement.SANDWICH:
            mixed = self.attention_post_norm(mixed)
        elif self.spec.placement == NormPlacement.RES_POST:
            mixed = self.attention_norm(mixed)
        if self.spec.layer_scale:
            mixed = self.attention_scale(mixed)
        if self.spec.gated:
            mixed = self.attention_tanh_gate(mixed)
        if self.spec.residual_scale != 1:
            mixed = mixed * self.spec.residual_scale
        attended = x + mixed  # (B, S, W)
        if self.spec.placement.after:
            attended = self.attention_norm(attended)
        if self.spec.placement == NormPlacement.DOUBLE_POST:
            attended = self.attention_post_norm(x + attended)
        return attended

    def _augmented(self, attended: Tensor, inner: Tensor, logits_indices: Tensor | None) -> Tensor:
        """The sum behind attention (B,L,W), its input (B,S,W), logits_indices (B,L) -> y (B,L,W)."""
        if self.spec.augmented_residual is None:
            return attended
        residual = self.augmented_residual(asked(inner, logits_indices))  # (B, L, W)
        y: Tensor = (attended + residual) * 2**-0.5
        return y

    def _crossed(self, attended: Tensor, cross: dict[str, Tensor | None] | None) -> tuple[Tensor, ...]:
        """After self-attention (B,S,W), the encoder's mask, keys and values -> (B,S,W), weights."""
        inner, post = attended, self.spec.placement == NormPlacement.POST
        if not post:
            inner = self.cross_attention_norm(attended)
        crossed, *weights = self.cross_attention(inner, **(cross or {}))
        if self.spec.placement == NormPlacement.SANDWICH:
            crossed = self.cross_attention_post_norm(crossed)
        attended = attended + crossed  # (B, S, W)
        if post:
            attended = self.cross_attention_norm(attended)
        return attended, *weights

    def _fed(self, x: Tensor, attended: Tensor) -> Tensor:
        """The block's input, and the hidden states after attention, both (B,S,W) -> y (B,S,W)."""
        if self.spec.feed_forward is None:
            return attended
        inner = x if self.spec.placement == NormPlacement.PARALLEL else attended
        if self.spec.placement.before:
            inner = self.feed_forward_norm(inner)
        read = (attended, inner) if isinstance(self.spec.feed_forward, DenseAndExpertsSpec) else (inner,)
        fed = self.feed_forward(*read)
        if self.spec.placement == NormPlacement.SANDWICH:
            fed = self.feed_forward_post_norm(fed)
        elif self.spec.placement == NormPlacement.RES_POST:
            fed = self.feed_forward_norm(fed)
        if self.spec.layer_scale:
            fed = self.feed_forward_scale(fed)
        if self.spec.gated:
            fed = self.feed_forward_tanh_gate(fed)
        if self.spec.residual_scale != 1:
            fed = fed * self.spec.residual_scale
        y = attended + fed  # (B, S, W)
        if self.spec.placement.after:
            y = self.feed_forward_norm(y)
        return y if self.spec.adapter is None else self.adapter(y)

    def _ended(self, y: Tensor, own_input: Tensor | None, streams: Tensor | None) -> Tensor:
        """The output of the last sublayer (B,S,W), and the layer's own input (B,S,P) -> y (B,S,W).

        With the predicted streams (B,S,A,W), y are the corrected ones (B,S,A,W).
        """
        if streams is not None:
            return self._corrected(y, own_input, streams)
        if self.spec.layer_input is not None:
            y = y + self.layer_input(y, own_input)
        return self.output_scale(y) if self.spec.output_scale else y

    def _corrected(self, y: Tensor, own_input: Tensor | None, streams: Tensor) -> Tensor:
        """As `_ended`, of several vectors of each token."""
        y = self.streams.correct(streams, y, self.streams.router(y))  # (B, S, A, W)
        first, others = y[:, :, :1], y[:, :, 1:]
        added = self.layer_input(self.streams.scale(y[:, :, 0]), own_input)  # (B, S, W)
        others = others + added[:, :, None]
        return torch.cat([first, others], dim=2)


class EncoderBlock(_Block):
    """Attention over the whole sequence, then feed-forward (Vaswani et al. 2017, 3.1)."""

    def __init__(self, spec: BlockSpec, weighted: bool = False):
        kind = type(spec.attention)
        if kind in WEIGHING_ATTENTIONS:
            attention = WEIGHING_ATTENTIONS[kind](spec.attention, weighted)
        else:
            attention = SPARSE_ATTENTIONS[kind](spec.attention)
        super().__init__(spec, attention, weighted)

    def forward(self, x: Tensor, **context: Tensor | None) -> tuple[Tensor, ...]:
        """x (B,S,W), the other inputs of attention -> y (B,S,W), and if `weighted` weights (B,N,S,S).

        Among them are seen_k and seen_v (B,K,E,H) of an image to which the layer attends.
        """
        image = {"mask": None, "k": context.pop("seen_k", None), "v": context.pop("seen_v", None)}
        inner, weights = self._before_attention(x), []
        if type(self.spec.attention) in WEIGHING_ATTENTIONS:
            mixed, *weights = self.attention(inner, **context)
        else:
            mixed = self.attention(inner, **context)
        attended = self._attended(x, mixed)  # (B, S, W)
        if self.spec.cross_attention is not None:
            attended, *_ = self._crossed(attended, image)  # (B, S, W)
        y = self._fed(x, attended)  # (B, S, W)
        return y, *weights


class DecoderBlock(_Block):
    """Self-attention over a cache, cross-attention if there is an encoder, then feed-forward."""

    def __init__(self, spec: BlockSpec, cache: Cache, weighted: bool = False):
        attention = CACHED_ATTENTIONS[type(spec.attention)](spec.attention, cache, weighted)
        super().__init__(spec, attention, weighted)

    def forward(
        self, x: Tensor, cross: dict[str, Tensor | None] | None, **context: Tensor | None
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), the other inputs of attention, past_k and past_v (B,K,P,H) among them.

        Returns y (B,S,W), k and v (B,K,T,H), and if `weighted` weights (B,N,S,T). With an encoder, cross has
        its mask (B,1,S,E), k and v (B,K,E,H), and its weights (B,N,S,E) come last. With logits_indices (B,L),
        y (B,L,W) and masks are of these tokens only. Some layers read an input of their own, layer_input
        (B,S,P).
        """
        own_input, picks = _own_input(context), context.get(names.LOGITS_INDICES)
        x, streams = self._predicted(x)
        inner = self._before_attention(x)
        mixed, k, v, *weights = self.attention(inner, **context)
        x, streams = asked(x, picks), asked(streams, picks)  # (B, L, W), (B, L, A, W)
        attended = self._augmented(self._attended(x, mixed), inner, picks)  # (B, S, W)
        if self.spec.cross_attention is not None:
            attended, *cross_weights = self._crossed(attended, cross)  # (B, S, W)
            weights += cross_weights
        y = self._ended(self._fed(x, attended), own_input, streams)  # (B, S, W)
        return y, k, v, *weights


class HybridBlock(_Block):
    """Self-attention over a cache and a sublayer with states, both over one norm, then feed-forward."""

    def __init__(self, spec: BlockSpec, cache: Cache, weighted: bool = False):
        attention = CACHED_ATTENTIONS[type(spec.attention)](spec.attention, cache, weighted)
        super().__init__(spec, attention, weighted)
        self.beside = STATEFUL[type(spec.beside)](spec.beside)

    def forward(
        self, x: Tensor, states: dict[str, Tensor | None], **context: Tensor | None
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), inputs of the sublayer with states, and other inputs of attention.

        Returns y (B,S,W), k and v (B,K,T,H), the states, and if `weighted` weights (B,N,S,T). With
        logits_indices (B,L), y (B,L,W) and masks are of these tokens only.
        """
        inner, asked_for = self._before_attention(x), context.get(names.LOGITS_INDICES)
        mixed, k, v, *weights = self.attention(inner, **context)
        beside, *present = self.beside(inner, **states, logits_indices=asked_for)  # (B, L, W)
        x = asked(x, asked_for)  # (B, L, W)
        y = self._fed(x, self._attended(x, mixed + beside))  # (B, S, W)
        return y, k, v, *present, *weights


class SharedBlock(DecoderBlock):
    """Attention over the keys and values of an earlier layer, then feed-forward."""

    def forward(self, x: Tensor, **context: Tensor | None) -> tuple[Tensor, ...]:  # type: ignore[override]
        """x (B,S,W), the other inputs of attention, k and v (B,K,T,H) of that layer among them -> y (B,S,W).

        If `weighted`, also weights (B,N,S,T). The other inputs as those of DecoderBlock.
        """
        own_input, picks = _own_input(context), context.get(names.LOGITS_INDICES)
        x, streams = self._predicted(x)
        inner = self._before_attention(x)
        mixed, *weights = self.attention(inner, **context)
        x, streams = asked(x, picks), asked(streams, picks)  # (B, L, W), (B, L, A, W)
        attended = self._augmented(self._attended(x, mixed), inner, picks)  # (B, S, W)
        y = self._ended(self._fed(x, attended), own_input, streams)  # (B, S, W)
        return y, *weights


class StatefulBlock(_Block):
    """A sublayer with states in place of attention, then feed-forward, if there is any."""

    def __init__(self, spec: BlockSpec):
        super().__init__(spec, STATEFUL[type(spec.attention)](spec.attention), weighted=False)

    def forward(self, x: Tensor, **context: Tensor | None) -> tuple[Tensor, ...]:
        """x (B,S,W), the other inputs of the sublayer, its states among them -> y (B,S,W), the states.

        With logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        mixed, *states = self.attention(self._before_attention(x), **context)
        x = asked(x, context.get(names.LOGITS_INDICES))  # (B, L, W)
        y = self._fed(x, self._attended(x, mixed))  # (B, S, W)
        return y, *states
