"""Whole models, put together from a spec."""

from collections.abc import Collection
from typing import assert_never

import torch
from torch import Tensor, nn

from txexport.contracts import cache_names, check_outputs, names
from txexport.contracts.layer_outputs import last_before_norm, sums_layers
from txexport.contracts.one_pass import vector_name
from txexport.spec import (
    Cache,
    DecoderSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    HeadKind,
    SignalStackSpec,
    StackSpec,
    TextStackSpec,
)
from txmodels.attention import CrossKeyValue
from txmodels.heads import (
    CausalLMHead,
    MaskedLMHead,
    Pooler,
    SequenceHead,
    SequenceVector,
    SpanHead,
    TokenHead,
)
from txmodels.layer_sum import LayerSum
from txmodels.linear import Linear
from txmodels.stack import Decoder, Encoder, Given, KeyValues, SignalEncoder

LABEL_HEADS = {
    HeadKind.SEQUENCE: SequenceHead,
    HeadKind.CHOICES: SequenceHead,
    HeadKind.TOKENS: TokenHead,
    HeadKind.SPANS: SpanHead,
}


class Model(nn.Module):
    """Encoder, decoder or both, and the head; `outputs` of every layer come too, as a contract has them."""

    def __init__(
        self,
        spec: EncoderSpec | DecoderSpec | EncoderDecoderSpec,
        cache: Cache = Cache.STATIC,
        outputs: Collection[str] = (),
    ):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        weighted = names.ATTENTIONS in self.outputs
        width = spec.stack.hidden_size
        self.reads_tokens = True
        if isinstance(spec, EncoderSpec | EncoderDecoderSpec):
            self.encoder = _encoder(spec.encoder, weighted)
            self.reads_tokens = isinstance(self.encoder, Encoder)
        if isinstance(spec, EncoderDecoderSpec):
            crossed = [block.cross_attention for block in spec.decoder.layers if block.cross_attention]
            if spec.projected:
                self.cross_projection = Linear(spec.encoder.hidden_size, width)
            self.cross = nn.ModuleList(map(CrossKeyValue, crossed))
        if isinstance(spec, DecoderSpec | EncoderDecoderSpec):
            self.decoder = Decoder(spec.decoder, cache if spec.generates else Cache.DYNAMIC, weighted)
            shared = isinstance(spec, EncoderDecoderSpec) and spec.shared_embedding
            if shared and isinstance(self.encoder, Encoder):
                self.decoder.embedding.word = self.encoder.embedding.word
        if isinstance(spec, EncoderSpec) and spec.layer_sum:
            self.layer_sum = LayerSum(spec.encoder.num_layers + 1)
        if isinstance(spec, EncoderSpec) and spec.pooler:
            self.pooler = Pooler(width)
        if isinstance(spec, EncoderSpec) and spec.vector is not None:
            self.vector = SequenceVector(spec.vector, width)
        if spec.head.kind == HeadKind.MASKED_LM:
            self.head: nn.Module = MaskedLMHead(spec.head, width, spec.vocab_size)
        elif spec.head.kind == HeadKind.CAUSAL_LM:
            self.head = CausalLMHead(spec.head, width, spec.vocab_size)
        elif spec.head.kind != HeadKind.NONE:
            self.head = LABEL_HEADS[spec.head.kind](spec.head, width)
        if isinstance(spec, EncoderSpec) and spec.next_sentence is not None:
            self.next_sentence = SequenceHead(spec.next_sentence, width)
        if isinstance(spec, EncoderSpec) and spec.distilled:
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
        given = self._given(self.spec.stacks[names.ENCODER], names.ENCODER)
        x = self.encoder(input_ids, attention_mask, token_type_ids, global_attention_mask, given)
        again = Given()
        match self.spec:
            case EncoderDecoderSpec(decoder_start_token_id=int(start)):
                x, again = self._read_again(start, x, input_ids, attention_mask)
        return self._outputs(x, input_ids, attention_mask) | given.values | again.values

    def _given(self, stack: StackSpec, name: str) -> Given:
        """The outputs of every layer of a stack that are asked for, to be filled."""
        both = isinstance(self.spec, EncoderDecoderSpec)
        states: dict[str, Tensor] | None = {} if sums_layers(self.spec) else None
        return Given(self.outputs, name if both else None, last_before_norm(self.spec, stack), states)

    def _read_again(
        self, start: int, x: Tensor, input_ids: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Given]:
        """The encoder's x (B,S,W), and its tokens and mask (B,S) -> the decoder's x (B,S,W) of the tokens."""
        first = torch.full_like(input_ids[:, :1], start)
        later = torch.cat([first, input_ids[:, :-1]], dim=1)  # (B, S)
        cross, nothing = self._cross(x), self.empty_past(input_ids.shape[0])
        given = self._given(self.spec.stacks[names.DECODER], names.DECODER)
        x, _ = self.decoder(later, nothing, encoder_attention_mask=attention_mask, cross=cross, given=given)
        return x, given

    def encode_signal(self, signal: Tensor) -> dict[str, Tensor]:
        """Pixels or a spectrogram -> what an encoder graph puts out, by its names."""
        given = self._given(self.spec.stacks[names.ENCODER], names.ENCODER)
        x = self.encoder(signal, given)
        if given.states is not None:
            x = self.layer_sum(given.states)
        if not (isinstance(self.spec, EncoderSpec) and self.spec.distilled):
            return self._outputs(x, None, None) | given.values
        first, second = self.head(x, None, None), self.distilled(x[:, 1:], None, None)  # (B, labels)
        return {
            names.LOGITS: (first + second) / 2,
            names.CLS_LOGITS: first,
            names.DISTILLATION_LOGITS: second,
            **given.values,
        }

    def _outputs(
        self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None
    ) -> dict[str, Tensor]:
        match self.spec.head.kind:
            case HeadKind.MASKED_LM:
                logits = self.head(x, self.encoder.token_embedding)
                if not (isinstance(self.spec, EncoderSpec) and self.spec.next_sentence):
                    return {names.LOGITS: logits}
                pair = self.next_sentence(x, input_ids, attention_mask)
                return {names.PREDICTION_LOGITS: logits, names.SEQ_RELATIONSHIP_LOGITS: pair}
            case HeadKind.SEQUENCE | HeadKind.CHOICES:
                return {names.LOGITS: self.head(x, input_ids, attention_mask)}
            case HeadKind.TOKENS:
                return {names.LOGITS: self.head(x)}
            case HeadKind.SPANS:
                start_logits, end_logits = self.head(x)
                return {names.START_LOGITS: start_logits, names.END_LOGITS: end_logits}
            case HeadKind.NONE | HeadKind.CAUSAL_LM:  # the latter is the decoder's
                return self._hidden_states(x, input_ids, attention_mask)
            case kind:
                assert_never(kind)

    def _hidden_states(
        self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None
    ) -> dict[str, Tensor]:
        """An encoder's x (B,S,W), the vector made of it, and keys and values for a decoder."""
        outputs = {names.LAST_HIDDEN_STATE: x}
        if isinstance(self.spec, EncoderSpec) and self.spec.pooler:
            outputs[names.POOLER_OUTPUT] = self.pooler(x)
        if isinstance(self.spec, EncoderSpec) and self.spec.vector is not None:
            outputs[vector_name(self.spec)] = self.vector(x, input_ids, attention_mask)
        if self.spec.generates:
            for i, pair in enumerate(self._cross(x)):
                outputs |= zip(cache_names.present(i, cache_names.ENCODER), pair, strict=True)
        return outputs

    def _cross(self, x: Tensor) -> KeyValues:
        """The encoder's x (B,S,W) -> its keys and values (B,K,S,H) for each layer of the decoder."""
        if isinstance(self.spec, EncoderDecoderSpec) and self.spec.projected:
            x = self.cross_projection(x)
        return [pair(x) for pair in self.cross]

    def decode(
        self, input_ids: Tensor, past: KeyValues, logits_indices: Tensor | None = None, **inputs
    ) -> tuple[Tensor, KeyValues]:
        """As `Decoder`, and logits_indices (B,L) -> logits (B,L,V), present."""
        logits, present, _ = self.decode_layers(input_ids, past, logits_indices, **inputs)
        return logits, present

    def decode_layers(
        self, input_ids: Tensor, past: KeyValues, logits_indices: Tensor | None = None, **inputs
    ) -> tuple[Tensor, KeyValues, dict[str, Tensor]]:
        """As `decode`, and what every layer gives of the outputs asked for, by name."""
        given = self._given(self.decoder.spec, names.DECODER)
        # Behind an encoder, where new tokens come one by one, only the head makes a difference.
        early = self.decoder.static and isinstance(self.spec, DecoderSpec) and not self.outputs
        last = logits_indices if early else None
        x, present = self.decoder(input_ids, past, given=given, logits_indices=last, **inputs)
        picks = None if early else logits_indices
        return self.head(x, picks, self.decoder.token_embedding), present, given.values

    def empty_past(self, batch: int, capacity: int = 0) -> KeyValues:
        """Keys and values of nothing yet: zeros (B,K,capacity,H) for each layer."""
        past = []
        for block in self.decoder.spec.layers:
            (kv_heads, k_size), (_, v_size) = block.masked.cache_shapes
            k, v = (torch.zeros(batch, kv_heads, capacity, size) for size in (k_size, v_size))
            past.append((k, v))
        return past


def _encoder(spec: StackSpec, weighted: bool) -> Encoder | SignalEncoder:
    match spec:
        case TextStackSpec():
            return Encoder(spec, weighted)
        case SignalStackSpec():
            return SignalEncoder(spec, weighted)
        case _:
            assert_never(spec)


def _flat(ids: Tensor | None) -> Tensor | None:
    return None if ids is None else ids.flatten(0, 1)
