"""Stacks of layers, put together from a spec."""

from collections.abc import Iterable
from typing import assert_never

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.contracts.layer_outputs import LayerOutputs
from txexport.spec import (
    AlibiSpec,
    BlockSpec,
    Cache,
    MaskedAttentionSpec,
    PositionedAttentionSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RotarySpec,
    RoundedAlibiSpec,
    SignalStackSpec,
    SinusoidVectorsSpec,
    TextStackSpec,
)
from txmodels.block import DecoderBlock, EncoderBlock
from txmodels.disentangled_attention import RelativeVectors
from txmodels.inputs import signal_embedding
from txmodels.inputs.tokens import Embedding
from txmodels.mask import (
    biased_mask,
    cache_mask,
    causal_mask,
    filled_then,
    mutual_mask,
    near_mask,
    padding_mask,
    single_token,
)
from txmodels.norm import Norm
from txmodels.position import (
    RelativeBias,
    alibi,
    asked_positions,
    patch_rotation,
    positions,
    rotation,
    rounded_alibi,
    token_positions,
)
from txmodels.transformer_xl_attention import other_segments, sinusoid_vectors

Values = dict[str, Tensor | None]
Masks = dict[int | None, Tensor]
KeyValues = list[tuple[Tensor, Tensor]]
Given = LayerOutputs[Tensor]


class _Stack(nn.Module):
    """The parts that encoders and decoders of tokens share."""

    def __init__(self, spec: TextStackSpec, blocks: Iterable[nn.Module]):
        super().__init__()
        self.spec = spec
        self.embedding = Embedding(spec.embedding)
        if isinstance(spec.relative, RelativeSpec):
            heads, several = spec.blocks[0].attention.num_heads, spec.relative.every_layer
            tables = [RelativeBias(spec.relative, heads) for _ in range(spec.num_layers if several else 1)]
            self.relative: nn.Module = nn.ModuleList(tables) if several else tables[0]
        elif isinstance(spec.relative, RelativeVectorsSpec):
            self.relative = RelativeVectors(spec.relative, spec.hidden_size)
        self.layers = nn.ModuleList(blocks)
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    @property
    def token_embedding(self) -> Tensor:
        """The word matrix (V,W)."""
        return self.embedding.word.weight

    def biased(self, masks: Masks, queries: Tensor, keys: Tensor) -> list[Masks]:
        """Of each layer the masks (B,1,S,T), with its bias of relative positions (B,N,S,T) if any."""
        match self.spec.relative:
            case None | RelativeVectorsSpec() | SinusoidVectorsSpec():
                return [masks] * self.spec.num_layers
            case AlibiSpec() as kind:
                biases = [alibi(kind, queries, keys)]
            case RoundedAlibiSpec() as kind:
                biases = [rounded_alibi(kind, queries, keys)]
            case RelativeSpec():
                tables = self.relative if isinstance(self.relative, nn.ModuleList) else [self.relative]
                biases = [table(queries, keys) for table in tables]
            case unknown:
                assert_never(unknown)
        layers = [{window: biased_mask(bias, mask) for window, mask in masks.items()} for bias in biases]
        return layers if len(layers) > 1 else layers * self.spec.num_layers

    def masked(self) -> list[MaskedAttentionSpec]:
        """The attentions of the stack that read a mask of pairs."""
        return [
            block.attention for block in self.spec.blocks if isinstance(block.attention, MaskedAttentionSpec)
        ]

    def rotations(self, places: Tensor, short: bool = False) -> dict[RotarySpec | None, Values]:
        """Cosines and sines for every way of rotating that a layer has, of `short` sequences alone.

        A static cache has places of padding, which tell nothing of how long a sequence is.
        """
        rotations: dict[RotarySpec | None, Values] = {}
        for kind in {attention.rotary for attention in self.masked()}:
            cos = sin = None
            if kind is not None:
                cos, sin = rotation(kind.of_short if short else kind, places)
            rotations[kind] = {"cos": cos, "sin": sin}
        return rotations

    def related(self, attention_mask: Tensor, token_type_ids: Tensor | None) -> Values:
        """What attention that reads vectors of relative positions has of masks and types of tokens (B,S)."""
        match self.spec.relative:
            case RelativeVectorsSpec():
                vectors, of_query, of_key = self.relative(attention_mask)
                mask = mutual_mask(attention_mask)  # (B, 1, S, S)
                return {"mask": mask, "vectors": vectors, "of_query": of_query, "of_key": of_key}
            case SinusoidVectorsSpec() as kind:
                assert token_type_ids is not None
                vectors, of_query = sinusoid_vectors(kind, attention_mask)
                mask = padding_mask(attention_mask, attention_mask)  # (B, 1, S, S)
                apart = other_segments(token_type_ids)  # (B, 1, S, S)
                return {"mask": mask, "vectors": vectors, "of_query": of_query, "apart": apart}
        return {}


def _context(
    block: BlockSpec,
    tokens: Values,
    masks: Masks,
    rotations: dict[RotarySpec | None, Values],
    relative: Values,
) -> Values:
    """What a block's attention reads.

    Masks of tokens (B,S), or one of pairs (B,1,S,T) and a rotation, or `relative` positions.
    """
    if isinstance(block.attention, PositionedAttentionSpec):
        return relative
    if not isinstance(block.attention, MaskedAttentionSpec):
        return {name: tokens[name] for name in block.attention.token_masks}
    return {"mask": masks.get(block.attention.window)} | rotations[block.attention.rotary]


class Encoder(_Stack):
    """A stack that reads a whole sequence at once; its layers give their weights where `weighted`."""

    def __init__(self, spec: TextStackSpec, weighted: bool = False):
        super().__init__(spec, (EncoderBlock(block, weighted) for block in spec.layers))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        given: Given | None = None,
    ) -> Tensor:
        """All (B,S) -> last_hidden_state (B,S,W); `given` is filled with what layers give."""
        given = given or Given()
        tokens: Values = {"attention_mask": attention_mask, "global_attention_mask": global_attention_mask}
        padding = self.spec.embedding.position.pad_token_id
        order = positions(input_ids, input_ids.new_zeros(input_ids.shape[0]))  # (B, S)
        places = order if padding is None else token_positions(padding, input_ids)
        # How far apart tokens are: linear biases do not count the padding between them.
        linear = isinstance(self.spec.relative, AlibiSpec | RoundedAlibiSpec)
        apart = attention_mask.cumsum(1) - 1 if linear else order  # (B, S)
        masks = {
            window: self.mask(window, attention_mask, input_ids, order)
            for window in {attention.window for attention in self.masked()}
        }
        biased = self.biased(masks, apart, apart)
        rotations, relative = self.rotations(order), self.related(attention_mask, token_type_ids)
        x = self.embedding(input_ids, places, token_type_ids, attention_mask)  # (B, S, W)
        for block, layer, masks in zip(self.spec.layers, self.layers, biased, strict=True):
            given.hidden(x)
            x, *weights = layer(x, **_context(block, tokens, masks, rotations, relative))
            given.weights(*weights)
        y: Tensor = self.final_norm(x)
        given.last(x, y)
        return y

    def mask(self, window: int | None, attention_mask: Tensor, input_ids: Tensor, order: Tensor) -> Tensor:
        """Who may attend to whom (B,1,S,S) in layers with that window."""
        if self.spec.causal:
            return causal_mask(window, attention_mask, input_ids, order)
        if window is not None:
            return near_mask(window, attention_mask, input_ids, order)
        return padding_mask(attention_mask, input_ids)


class SignalEncoder(nn.Module):
    """A stack that reads a whole image or sound at once."""

    def __init__(self, spec: SignalStackSpec, weighted: bool = False):
        super().__init__()
        self.spec = spec
        self.embedding = signal_embedding(spec)
        self.layers = nn.ModuleList(EncoderBlock(block, weighted) for block in spec.layers)
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    def forward(self, signal: Tensor, given: Given | None = None) -> Tensor:
        """Pixels (B,channels,height,width) or a spectrogram (B,bands,frames) -> last_hidden_state (B,S,W).

        `given` is filled with what layers give.
        """
        given, cos, sin = given or Given(), None, None
        if self.spec.rotary is not None:
            cos, sin = patch_rotation(self.spec.patches, self.spec.rotary, signal)  # (B, S, R)
        x = self.embedding(signal)  # (B, S, W)
        for layer in self.layers:
            given.hidden(x)
            x, *weights = layer(x, mask=None, cos=cos, sin=sin)
            given.weights(*weights)
        y: Tensor = self.final_norm(x)
        given.last(x, y)
        return y


class Decoder(_Stack):
    """A stack that reads new tokens over a cache of past ones."""

    def __init__(self, spec: TextStackSpec, cache: Cache, weighted: bool = False):
        super().__init__(spec, (DecoderBlock(block, cache, weighted) for block in spec.layers))
        self.static, self.weighted = cache == Cache.STATIC, weighted

    def forward(
        self,
        input_ids: Tensor,
        past: KeyValues,
        *,
        cache_lengths: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        cross: KeyValues | None = None,
        given: Given | None = None,
        logits_indices: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """input_ids (B,S), past (B,K,P,H) a layer -> last_hidden_state (B,S,W), present (B,K,T,H) a layer.

        With inputs_embeds (B,S,W), these stand in place of the embedding of the ids, positions included, and
        the ids tell the size alone. A static cache takes cache_lengths (B), and position_ids (B,S) where
        positions are not those of the slots. A dynamic one takes attention_mask (B,P+S) and
        position_ids (B,S), or neither where every row is as long as the cache. With an encoder:
        its encoder_attention_mask (B,E) and cross keys and values (B,K,E,H) a layer. `given` is filled with
        what layers give. With logits_indices (B,L), over a static cache, the last layer computes of those
        tokens alone what is not kept: last_hidden_state is (B,L,W).
        """
        given = given or Given()
        if self.static:
            assert cache_lengths is not None
            places, masks = self._over_slots(
                input_ids, past[0][0], cache_lengths, logits_indices, position_ids
            )
        else:
            places, masks = self._over_past(input_ids, past[0][0], attention_mask, position_ids)
        cross_mask = None
        if encoder_attention_mask is not None:
            cross_mask = padding_mask(encoder_attention_mask, input_ids)  # (B, 1, S, E)
        rotations = self.rotations(places, short=self.static)
        x = inputs_embeds
        if x is None:
            x = self.embedding(input_ids, places, None, None)  # (B, S, W)
        present, single, filled = [], single_token(input_ids), None
        if cache_lengths is not None and not self.weighted:
            filled = filled_then(input_ids, cache_lengths)
        for i, (block, layer) in enumerate(zip(self.spec.layers, self.layers, strict=True)):
            context = _context(block, {}, masks[i], rotations, {})
            if logits_indices is not None and i == self.spec.num_layers - 1:
                context[names.LOGITS_INDICES] = logits_indices
            elif filled is not None:
                if block.masked.shares_keys:
                    context["single"] = single
                if block.masked.maskless_static:
                    context |= {"mask": None, "filled": filled}
            past_k, past_v = past[i]
            context |= {"past_k": past_k, "past_v": past_v}
            source = None if cross is None else _source(cross_mask, *cross[i])
            given.hidden(x)
            x, k, v, *weights = layer(x, source, cache_lengths=cache_lengths, **context)
            given.weights(*weights)
            present.append((k, v))
        y: Tensor = self.final_norm(x)
        given.last(x, y)
        return y, present

    def _over_slots(
        self,
        input_ids: Tensor,
        past_k: Tensor,
        cache_lengths: Tensor,
        logits_indices: Tensor | None,
        position_ids: Tensor | None,
    ) -> tuple[Tensor, list[Masks]]:
        """Positions of new tokens (B,S), and of each layer by window the mask over its slots (B,1,S,C).

        With logits_indices (B,L) the last layer's is (B,1,L,C).
        """
        slots = positions(input_ids, cache_lengths)  # (B, S)
        places = slots if position_ids is None else position_ids
        masks = self._slot_masks(slots, past_k)
        if logits_indices is not None:
            masks[-1] = self._slot_masks(asked_positions(logits_indices, cache_lengths), past_k)[-1]
        return places, masks

    def _slot_masks(self, places: Tensor, past_k: Tensor) -> list[Masks]:
        """Of each layer by window the mask (B,1,S,C) of queries at `places` (B,S)."""
        slots = torch.arange(past_k.shape[2], device=places.device)[None]  # (1, C)
        windows = {attention.window for attention in self.masked()}
        masks: Masks = {window: cache_mask(window, places, past_k) for window in windows}
        return self.biased(masks, places, slots)

    def _over_past(
        self, input_ids: Tensor, past_k: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None
    ) -> tuple[Tensor, list[Masks]]:
        """Positions of new tokens (B,S), and of each layer by window the mask over all of them (B,1,S,T)."""
        length = past_k.shape[2]  # P
        if attention_mask is None:
            attention_mask = input_ids.new_ones(input_ids.shape[0], length + input_ids.shape[1])
        if position_ids is None:
            position_ids = positions(input_ids, input_ids.new_full((input_ids.shape[0],), length))
        order = attention_mask.cumsum(1) - 1  # (B, T): padding between tokens is no distance
        masks: Masks = {}
        for window in {attention.window for attention in self.masked()}:
            masks[window] = causal_mask(window, attention_mask, input_ids, order)  # (B, 1, S, T)
        return position_ids, self.biased(masks, position_ids, order)


def _source(mask: Tensor | None, k: Tensor, v: Tensor) -> Values:
    """What cross-attention reads: a mask (B,1,S,E), keys and values (B,K,E,H)."""
    return {"mask": mask, "k": k, "v": v}
