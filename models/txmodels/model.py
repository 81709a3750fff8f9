"""Whole models, put together from a spec."""

import torch
from torch import Tensor, nn

from txexport.contracts import cache_names, names
from txexport.spec import Cache, EmbeddingSpec, HeadKind, ModelSpec
from txmodels.attention import CrossKeyValue
from txmodels.heads import CausalLMHead, MaskedLMHead, Pooler, SequenceHead, SpanHead, TokenHead
from txmodels.stack import Decoder, Encoder, KeyValues, SignalEncoder

LABEL_HEADS = {
    HeadKind.SEQUENCE: SequenceHead,
    HeadKind.CHOICES: SequenceHead,
    HeadKind.TOKENS: TokenHead,
    HeadKind.SPANS: SpanHead,
}


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
            self.decoder = Decoder(spec.decoder, cache if spec.generates else Cache.DYNAMIC)
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
            return {
                names.LOGITS: self.head(x, input_ids, attention_mask).unflatten(0, (-1, choices)).squeeze(2)
            }
        x = self.encoder(input_ids, attention_mask, token_type_ids, global_attention_mask)
        if self.spec.start is not None:
            x = self._read_again(x, input_ids, attention_mask)
        return self._outputs(x, input_ids, attention_mask)

    def _read_again(self, x: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The encoder's x (B,S,W), and its tokens and mask (B,S) -> the decoder's x (B,S,W) of the tokens."""
        start = torch.full_like(input_ids[:, :1], self.spec.start or 0)
        later = torch.cat([start, input_ids[:, :-1]], dim=1)  # (B, S)
        cross, nothing = [pair(x) for pair in self.cross], self.empty_past(len(input_ids))
        x, _ = self.decoder(later, nothing, encoder_attention_mask=attention_mask, cross=cross)
        return x

    def encode_signal(self, signal: Tensor) -> dict[str, Tensor]:
        """Pixels or a spectrogram -> what an encoder graph puts out, by its names."""
        x = self.encoder(signal)
        if not self.spec.distilled:
            return self._outputs(x, None, None)
        first, second = self.head(x, None, None), self.distilled(x[:, 1:], None, None)  # (B, labels)
        return {
            names.LOGITS: (first + second) / 2,
            names.CLS_LOGITS: first,
            names.DISTILLATION_LOGITS: second,
        }

    def _outputs(
        self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None
    ) -> dict[str, Tensor]:
        if self.spec.head.kind == HeadKind.MASKED_LM:
            logits = self.head(x, self.encoder.words)
            if self.spec.next_sentence is None:
                return {names.LOGITS: logits}
            pair = self.next_sentence(x, input_ids, attention_mask)
            return {names.PREDICTION_LOGITS: logits, names.SEQ_RELATIONSHIP_LOGITS: pair}
        if self.spec.head.kind == HeadKind.SPANS:
            start_logits, end_logits = self.head(x)
            return {names.START_LOGITS: start_logits, names.END_LOGITS: end_logits}
        if self.spec.head.kind == HeadKind.SEQUENCE:
            return {names.LOGITS: self.head(x, input_ids, attention_mask)}
        if self.spec.head.kind == HeadKind.TOKENS:
            return {names.LOGITS: self.head(x)}
        outputs = {names.LAST_HIDDEN_STATE: x}
        if self.spec.pooler:
            outputs[names.POOLER_OUTPUT] = self.pooler(x)
        if self.spec.generates:
            for i, cross in enumerate(self.cross):
                outputs |= zip(cache_names.present(i, cache_names.ENCODER), cross(x), strict=True)
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


def _flat(ids: Tensor | None) -> Tensor | None:
    return None if ids is None else ids.flatten(0, 1)
