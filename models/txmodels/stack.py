"""Stacks of layers, put together from a spec."""

from collections.abc import Iterable
from typing import assert_never

import torch
from torch import Tensor, nn

from txexport.spec import (
    AlibiSpec,
    BlockSpec,
    Cache,
    LogMelSpec,
    PatchSpec,
    RelativeSpec,
    RotarySpec,
    SignalStackSpec,
    TextStackSpec,
)
from txmodels.block import DecoderBlock, EncoderBlock
from txmodels.embedding import Embedding
from txmodels.mask import biased_mask, cache_mask, causal_mask, near_mask, padding_mask
from txmodels.norm import Norm
from txmodels.position import RelativeBias, alibi, positions, rotation, token_positions
from txmodels.signal import PatchEmbedding, SoundEmbedding
from txmodels.sparse_block import SparseEncoderBlock

KeyValues = list[tuple[Tensor, Tensor]]
Rotations = dict[RotarySpec | None, tuple[Tensor | None, Tensor | None]]


class _Stack(nn.Module):
    """The parts that encoders and decoders of tokens share."""

    def __init__(self, spec: TextStackSpec, blocks: Iterable[nn.Module]):
        super().__init__()
        self.spec = spec
        self.embedding = Embedding(spec.embedding)
        if isinstance(spec.relative, RelativeSpec):
            self.relative = RelativeBias(spec.relative, spec.blocks[0].attention.num_heads)
        self.layers = nn.ModuleList(blocks)
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    @property
    def token_embedding(self) -> Tensor:
        """The word matrix (V,W)."""
        return self.embedding.word.weight

    def biased(self, mask: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """The mask (B,1,S,T), with the bias of relative positions (B,N,S,T) where there is one."""
        match self.spec.relative:
            case None:
                return mask
            case AlibiSpec() as kind:
                return biased_mask(alibi(kind, queries, keys), mask)
            case RelativeSpec():
                return biased_mask(self.relative(queries, keys), mask)
            case unknown:
                assert_never(unknown)

    def rotations(self, places: Tensor) -> Rotations:
        """Cosines and sines for every way of rotating that a layer has."""
        kinds = {block.dense.rotary for block in self.spec.blocks if not block.sparse}
        return {kind: (None, None) if kind is None else rotation(kind, places) for kind in kinds}


class Encoder(_Stack):
    """A stack that reads a whole sequence at once."""

    def __init__(self, spec: TextStackSpec):
        super().__init__(spec, map(_encoder_block, spec.layers))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """All (B,S) -> last_hidden_state (B,S,W)."""
        tokens = {"attention_mask": attention_mask, "global_attention_mask": global_attention_mask}
        padding = self.spec.embedding.position.pad_token_id
        order = positions(input_ids, input_ids.new_zeros(len(input_ids)))  # (B, S)
        places = order if padding is None else token_positions(padding, input_ids)
        # How far apart tokens are: linear biases do not count the padding between them.
        apart = attention_mask.cumsum(1) - 1 if isinstance(self.spec.relative, AlibiSpec) else order
        masks = {
            window: self.biased(self.mask(window, attention_mask, input_ids, order), apart, apart)
            for window in {block.dense.window for block in self.spec.blocks if not block.sparse}
        }
        rotations = self.rotations(order)
        x = self.embedding(input_ids, places, token_type_ids, attention_mask)  # (B, S, W)
        for block, layer in zip(self.spec.layers, self.layers, strict=True):
            if block.sparse:
                x = layer(x, *(tokens[name] for name in block.attention.token_masks))
            else:
                x = layer(x, masks[block.dense.window], *rotations[block.dense.rotary])
        x = self.final_norm(x)
        return x

    def mask(self, window: int | None, attention_mask: Tensor, input_ids: Tensor, order: Tensor) -> Tensor:
        """Who may attend to whom (B,1,S,S) in layers with that window."""
        if self.spec.causal:
            return causal_mask(window, attention_mask, input_ids, order)
        if window is not None:
            return near_mask(window, attention_mask, input_ids, order)
        return padding_mask(attention_mask, input_ids)


class SignalEncoder(nn.Module):
    """A stack that reads a whole image or sound at once."""

    def __init__(self, spec: SignalStackSpec):
        super().__init__()
        self.spec = spec
        self.embedding = _signal_embedding(spec.embedding)
        self.layers = nn.ModuleList(map(EncoderBlock, spec.layers))
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    def forward(self, signal: Tensor) -> Tensor:
        """Pixels (B,channels,height,width) or a spectrogram (B,bands,frames) -> last_hidden_state (B,S,W)."""
        x = self.embedding(signal)  # (B, S, W)
        for layer in self.layers:
            x = layer(x, None, None, None)
        x = self.final_norm(x)
        return x


class Decoder(_Stack):
    """A stack that reads new tokens over a cache of past ones."""

    def __init__(self, spec: TextStackSpec, cache: Cache):
        super().__init__(spec, (DecoderBlock(block, cache) for block in spec.layers))
        self.static = cache == Cache.STATIC

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
    ) -> tuple[Tensor, KeyValues]:
        """input_ids (B,S), past (B,K,P,H) a layer -> last_hidden_state (B,S,W), present (B,K,T,H) a layer.

        A static cache takes cache_lengths (B). A dynamic one takes attention_mask (B,P+S) and
        position_ids (B,S), or neither where every row is as long as the cache. With an encoder:
        its encoder_attention_mask (B,E) and cross keys and values (B,K,E,H) a layer.
        """
        windows = {block.dense.window for block in self.spec.blocks}
        masks: dict[int | None, Tensor | None] = {}
        if self.static:
            assert cache_lengths is not None
            places = positions(input_ids, cache_lengths)  # (B, S)
            slots = torch.arange(past[0][0].shape[2], device=input_ids.device)[None]  # (1, C)
            for window in windows:
                seen = cache_mask(window, cache_lengths, past[0][0], input_ids)  # (B, 1, S, C)
                masks[window] = self.biased(seen, places, slots)
        else:
            length = past[0][0].shape[2]  # P
            if attention_mask is None:
                attention_mask = input_ids.new_ones(len(input_ids), length + input_ids.shape[1])
            if position_ids is None:
                position_ids = positions(input_ids, input_ids.new_full((len(input_ids),), length))
            places = position_ids
            order = attention_mask.cumsum(1) - 1  # (B, T): padding between tokens is no distance
            for window in windows:
                seen = causal_mask(window, attention_mask, input_ids, order)  # (B, 1, S, T)
                masks[window] = self.biased(seen, places, order)
        cross_mask = None
        if encoder_attention_mask is not None:
            cross_mask = padding_mask(encoder_attention_mask, input_ids)  # (B, 1, S, E)
        rotations = self.rotations(places)
        x = self.embedding(input_ids, places, None, None)  # (B, S, W)
        present = []
        for i, (block, layer) in enumerate(zip(self.spec.layers, self.layers, strict=True)):
            mask, turns = masks[block.dense.window], rotations[block.dense.rotary]
            cross_k, cross_v = cross[i] if cross else (None, None)
            x, k, v = layer(x, mask, *turns, cache_lengths, *past[i], cross_mask, cross_k, cross_v)
            present.append((k, v))
        x = self.final_norm(x)
        return x, present


def _signal_embedding(spec: PatchSpec | LogMelSpec) -> nn.Module:
    match spec:
        case PatchSpec():
            return PatchEmbedding(spec)
        case LogMelSpec():
            return SoundEmbedding(spec)
        case _:
            assert_never(spec)


def _encoder_block(spec: BlockSpec) -> nn.Module:
    return SparseEncoderBlock(spec) if spec.sparse else EncoderBlock(spec)
