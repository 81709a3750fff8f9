"""Whole models, put together from a spec."""

import torch
from torch import Tensor, nn

from txexport.spec import Cache, HeadKind, ModelSpec, StackSpec
from txmodels.attention import CrossKeyValue
from txmodels.block import DecoderBlock, EncoderBlock
from txmodels.embedding import Embedding
from txmodels.heads import CausalLMHead, MaskedLMHead, Pooler, SequenceHead, SpanHead, TokenHead
from txmodels.mask import biased_mask, cache_mask, causal_mask, padding_mask
from txmodels.norm import Norm
from txmodels.position import RelativeBias, positions, rotation, token_positions

KeyValues = list[tuple[Tensor, Tensor]]

LABEL_HEADS = {
    HeadKind.SEQUENCE: SequenceHead,
    HeadKind.TOKENS: TokenHead,
    HeadKind.SPANS: SpanHead,
}


class Encoder(nn.Module):
    """A stack that reads a whole sequence at once."""

    def __init__(self, spec: StackSpec):
        super().__init__()
        self.attention, self.padding = spec.block.attention, spec.embedding.position.padding
        self.embedding = Embedding(spec.embedding)
        if spec.relative is not None:
            self.relative = RelativeBias(spec.relative, self.attention.num_heads)
        self.layers = nn.ModuleList(EncoderBlock(spec.block) for _ in range(spec.num_layers))
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """All (B,S) -> last_hidden_state (B,S,W)."""
        if self.padding is None:
            places = positions(input_ids, input_ids.new_zeros(len(input_ids)))  # (B, S)
        else:
            places = token_positions(self.padding, input_ids)
        if self.attention.causal:
            mask = causal_mask(self.attention.window, attention_mask, input_ids, places)  # (B, 1, S, S)
        else:
            mask = padding_mask(attention_mask, input_ids)
        if self.attention.biased:
            mask = biased_mask(self.relative(places, places), mask)  # (B, N, S, S)
        cos, sin = rotation(self.attention.rotary, places) if self.attention.rotary else (None, None)
        x = self.embedding(input_ids, places, token_type_ids)  # (B, S, W)
        for layer in self.layers:
            x = layer(x, mask, cos, sin)
        x = self.final_norm(x)
        return x


class Decoder(nn.Module):
    """A stack that reads new tokens over a cache of past ones."""

    def __init__(self, spec: StackSpec, cache: Cache):
        super().__init__()
        self.static, self.attention = cache == Cache.STATIC, spec.block.attention
        self.embedding = Embedding(spec.embedding)
        if spec.relative is not None:
            self.relative = RelativeBias(spec.relative, self.attention.num_heads)
        self.layers = nn.ModuleList(DecoderBlock(spec.block, cache) for _ in range(spec.num_layers))
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

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
        if self.static:
            assert cache_lengths is not None
            places, mask = positions(input_ids, cache_lengths), None  # (B, S)
            if self.attention.window is not None or self.attention.biased:
                mask = cache_mask(self.attention.window, cache_lengths, past[0][0], input_ids)  # (B, 1, S, C)
        else:
            length = past[0][0].shape[2]  # P
            if attention_mask is None:
                attention_mask = input_ids.new_ones(len(input_ids), length + input_ids.shape[1])
            if position_ids is None:
                position_ids = positions(input_ids, input_ids.new_full((len(input_ids),), length))
            places = position_ids
            order = attention_mask.cumsum(1)  # padding between tokens is no distance
            mask = causal_mask(self.attention.window, attention_mask, input_ids, order)  # (B, 1, S, T)
        if self.attention.biased:
            assert mask is not None
            keys = torch.arange(mask.shape[3], device=mask.device)[None]  # (1, T)
            mask = biased_mask(self.relative(places, keys), mask)  # (B, N, S, T)
        cross_mask = None
        if encoder_attention_mask is not None:
            cross_mask = padding_mask(encoder_attention_mask, input_ids)  # (B, 1, S, E)
        cos, sin = rotation(self.attention.rotary, places) if self.attention.rotary else (None, None)
        x = self.embedding(input_ids, places, None)  # (B, S, W)
        present = []
        for i, layer in enumerate(self.layers):
            cross_k, cross_v = cross[i] if cross else (None, None)
            x, k, v = layer(x, mask, cos, sin, cache_lengths, *past[i], cross_mask, cross_k, cross_v)
            present.append((k, v))
        x = self.final_norm(x)
        return x, present


class Model(nn.Module):
    """Encoder, decoder or both, and the head."""

    def __init__(self, spec: ModelSpec, cache: Cache = Cache.STATIC):
        super().__init__()
        self.spec = spec
        width, words = spec.stack.hidden_size, spec.stack.embedding.vocab_size
        if spec.encoder is not None:
            self.encoder = Encoder(spec.encoder)
        if spec.decoder is not None:
            crossed = spec.decoder.block.cross_attention
            if crossed is not None:
                self.cross = nn.ModuleList(CrossKeyValue(crossed) for _ in range(spec.decoder.num_layers))
            self.decoder = Decoder(spec.decoder, cache)
            if spec.shared_embedding:
                self.decoder.embedding.word.weight = self.encoder.embedding.word.weight
        if spec.pooler:
            self.pooler = Pooler(width)
        if spec.head.kind == HeadKind.MASKED_LM:
            self.head: nn.Module = MaskedLMHead(spec.head, width, words)
        elif spec.head.kind == HeadKind.CAUSAL_LM:
            self.head = CausalLMHead(spec.head, width, words)
        elif spec.head.kind != HeadKind.NONE:
            self.head = LABEL_HEADS[spec.head.kind](spec.head, width)

    def encode(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """All (B,S) -> what an encoder graph puts out, by its names."""
        x = self.encoder(input_ids, attention_mask, token_type_ids)
        if self.spec.head.kind == HeadKind.MASKED_LM:
            return {"logits": self.head(x, self.encoder.embedding.word.weight)}
        if self.spec.head.kind == HeadKind.SPANS:
            start_logits, end_logits = self.head(x)
            return {"start_logits": start_logits, "end_logits": end_logits}
        if self.spec.head.kind in LABEL_HEADS:
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
        return self.head(x, logits_indices, self.decoder.embedding.word.weight), present

    def empty_past(self, batch: int, capacity: int = 0) -> KeyValues:
        """Keys and values of nothing yet: zeros (B,K,capacity,H) for each layer."""
        assert self.spec.decoder is not None
        attention = self.spec.decoder.block.attention
        zeros = torch.zeros(batch, attention.num_kv_heads, capacity, attention.head_dim)
        return [(zeros, zeros) for _ in range(self.spec.decoder.num_layers)]
