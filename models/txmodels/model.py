"""Whole models, put together from a spec."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from txexport.spec import (
    AlibiSpec,
    BlockSpec,
    Cache,
    EmbeddingSpec,
    HeadKind,
    ModelSpec,
    PatchSpec,
    RelativeSpec,
    RotarySpec,
    SoundSpec,
    StackSpec,
)
from txmodels.attention import CrossKeyValue
from txmodels.block import DecoderBlock, EncoderBlock
from txmodels.embedding import Embedding
from txmodels.heads import CausalLMHead, MaskedLMHead, Pooler, SequenceHead, SpanHead, TokenHead
from txmodels.mask import biased_mask, cache_mask, causal_mask, near_mask, padding_mask
from txmodels.norm import Norm
from txmodels.position import RelativeBias, alibi, positions, rotation, token_positions
from txmodels.signal import PatchEmbedding, SoundEmbedding
from txmodels.sparse_block import SparseEncoderBlock

KeyValues = list[tuple[Tensor, Tensor]]
Rotations = dict[RotarySpec | None, tuple[Tensor | None, Tensor | None]]

LABEL_HEADS = {
    HeadKind.SEQUENCE: SequenceHead,
    HeadKind.CHOICES: SequenceHead,
    HeadKind.TOKENS: TokenHead,
    HeadKind.SPANS: SpanHead,
}


class _Stack(nn.Module):
    """The parts that encoders and decoders share."""

    def __init__(self, spec: StackSpec, blocks: Iterable[nn.Module]):
        super().__init__()
        self.spec = spec
        self.embedding = _embedding(spec.embedding)
        if isinstance(spec.relative, RelativeSpec):
            self.relative = RelativeBias(spec.relative, spec.blocks[0].attention.num_heads)
        self.layers = nn.ModuleList(blocks)
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    @property
    def words(self) -> Tensor:
        """The word matrix (V,W) of a stack that reads tokens."""
        assert isinstance(self.embedding, Embedding)
        return self.embedding.word.weight

    def biased(self, mask: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """The mask (B,1,S,T), with the bias of relative positions (B,N,S,T) where there is one."""
        if self.spec.relative is None:
            return mask
        if isinstance(self.spec.relative, AlibiSpec):
            return biased_mask(alibi(self.spec.relative, queries, keys), mask)
        return biased_mask(self.relative(queries, keys), mask)

    def rotations(self, places: Tensor) -> Rotations:
        """Cosines and sines for every way of rotating that a layer has."""
        kinds = {block.dense.rotary for block in self.spec.blocks if not block.sparse}
        return {kind: (None, None) if kind is None else rotation(kind, places) for kind in kinds}


class Encoder(_Stack):
    """A stack that reads a whole sequence at once."""

    def __init__(self, spec: StackSpec):
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
        padding = self.spec.words.position.padding
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


class SignalEncoder(_Stack):
    """A stack that reads a whole image or sound at once."""

    def __init__(self, spec: StackSpec):
        super().__init__(spec, map(EncoderBlock, spec.layers))

    def forward(self, signal: Tensor) -> Tensor:
        """Pixels (B,channels,height,width) or a spectrogram (B,bands,frames) -> last_hidden_state (B,S,W)."""
        x = self.embedding(signal)  # (B, S, W)
        for layer in self.layers:
            x = layer(x, None, None, None)
        x = self.final_norm(x)
        return x


class Decoder(_Stack):
    """A stack that reads new tokens over a cache of past ones."""

    def __init__(self, spec: StackSpec, cache: Cache):
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


def _embedding(spec: EmbeddingSpec | PatchSpec | SoundSpec) -> nn.Module:
    if isinstance(spec, PatchSpec):
        return PatchEmbedding(spec)
    return SoundEmbedding(spec) if isinstance(spec, SoundSpec) else Embedding(spec)


class Model(nn.Module):
    """Encoder, decoder or both, and the head."""

    def __init__(self, spec: ModelSpec, cache: Cache = Cache.STATIC):
        super().__init__()
        self.spec = spec
        width = spec.stack.hidden_size
        self.reads_tokens = spec.encoder is None or isinstance(spec.encoder.embedding, EmbeddingSpec)
        if spec.encoder is not None:
            self.encoder = Encoder(spec.encoder) if self.reads_tokens else SignalEncoder(spec.encoder)
        if spec.decoder is not None:
            crossed = [block.cross_attention for block in spec.decoder.layers if block.cross_attention]
            if crossed:
                self.cross = nn.ModuleList(map(CrossKeyValue, crossed))
            self.decoder = Decoder(spec.decoder, cache)
            if spec.shared_embedding:
                self.decoder.embedding.word = self.encoder.embedding.word
        if spec.pooler:
            self.pooler = Pooler(width)
        if spec.head.kind == HeadKind.MASKED_LM:
            self.head: nn.Module = MaskedLMHead(spec.head, width, spec.stack.words.vocab_size)
        elif spec.head.kind == HeadKind.CAUSAL_LM:
            self.head = CausalLMHead(spec.head, width, spec.stack.words.vocab_size)
        elif spec.head.kind != HeadKind.NONE:
            self.head = LABEL_HEADS[spec.head.kind](spec.head, width)
        if spec.next_sentence is not None:
            self.next_sentence = SequenceHead(spec.next_sentence, width)
        if spec.distilled:
            self.distilled = SequenceHead(spec.head, width)

    def encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """All (B,S), or (B,C,S) for C choices -> what an encoder graph puts out, by its names."""
        if self.spec.head.kind == HeadKind.CHOICES:
            choices, token_type_ids = input_ids.shape[1], _flat(token_type_ids)
            input_ids, attention_mask = input_ids.flatten(0, 1), attention_mask.flatten(0, 1)
            x = self.encoder(input_ids, attention_mask, token_type_ids, _flat(global_attention_mask))
            return {"logits": self.head(x, input_ids, attention_mask).unflatten(0, (-1, choices)).squeeze(2)}
        x = self.encoder(input_ids, attention_mask, token_type_ids, global_attention_mask)
        return self._outputs(x, input_ids, attention_mask)

    def encode_signal(self, signal: Tensor) -> dict[str, Tensor]:
        """Pixels or a spectrogram -> what an encoder graph puts out, by its names."""
        x = self.encoder(signal)
        if not self.spec.distilled:
            return self._outputs(x, None, None)
        first, second = self.head(x, None, None), self.distilled(x[:, 1:], None, None)  # (B, labels)
        return {"logits": (first + second) / 2, "cls_logits": first, "distillation_logits": second}

    def _outputs(
        self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None
    ) -> dict[str, Tensor]:
        if self.spec.head.kind == HeadKind.MASKED_LM:
            logits = self.head(x, self.encoder.words)
            if self.spec.next_sentence is None:
                return {"logits": logits}
            pair = self.next_sentence(x, input_ids, attention_mask)
            return {"prediction_logits": logits, "seq_relationship_logits": pair}
        if self.spec.head.kind == HeadKind.SPANS:
            start_logits, end_logits = self.head(x)
            return {"start_logits": start_logits, "end_logits": end_logits}
        if self.spec.head.kind == HeadKind.SEQUENCE:
            return {"logits": self.head(x, input_ids, attention_mask)}
        if self.spec.head.kind == HeadKind.TOKENS:
            return {"logits": self.head(x)}
        outputs = {"last_hidden_state": x}
        if self.spec.pooler:
            outputs["pooler_output"] = self.pooler(x)
        if self.spec.decoder is not None:
            for i, cross in enumerate(self.cross):
                k, v = cross(x)
                outputs |= {f"present.{i}.encoder.key": k, f"present.{i}.encoder.value": v}
        return outputs

    def decode(
        self, input_ids: Tensor, past: KeyValues, logits_indices: Tensor | None = None, **inputs
    ) -> tuple[Tensor, KeyValues]:
        """As `Decoder`, and logits_indices (B,L) -> logits (B,L,V), present."""
        x, present = self.decoder(input_ids, past, **inputs)
        return self.head(x, logits_indices, self.decoder.words), present

    def empty_past(self, batch: int, capacity: int = 0) -> KeyValues:
        """Keys and values of nothing yet: zeros (B,K,capacity,H) for each layer."""
        assert self.spec.decoder is not None
        past = []
        for block in self.spec.decoder.layers:
            zeros = torch.zeros(batch, block.dense.num_kv_heads, capacity, block.dense.head_dim)
            past.append((zeros, zeros))
        return past


def _encoder_block(spec: BlockSpec) -> nn.Module:
    return SparseEncoderBlock(spec) if spec.sparse else EncoderBlock(spec)


def _flat(ids: Tensor | None) -> Tensor | None:
    return None if ids is None else ids.flatten(0, 1)
