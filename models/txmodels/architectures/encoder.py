"""An encoder with a head, which reads its whole input at once."""

from collections.abc import Collection, Sequence

from torch import Tensor, nn

from txexport.contracts import names
from txexport.parts import check_outputs
from txexport.parts.vectors import vector_name
from txexport.spec import Cache, EncoderSpec, HeadKind
from txexport.spec.lengths import output_size
from txmodels.architectures._model import encoder, layers_of
from txmodels.encoder_stack import Encoder
from txmodels.heads import head
from txmodels.heads.sequence import SequenceHead
from txmodels.heads.vectors import Pooler, SequenceVector
from txmodels.layer_sum import LayerSum


class EncoderModel(nn.Module):
    """One stack and its head, or heads; `outputs` of every layer are returned too, as a contract has them."""

    def __init__(self, spec: EncoderSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        width = output_size(spec.encoder)
        self.encoder = encoder(spec.encoder, names.ATTENTIONS in self.outputs)
        self.reads_tokens = isinstance(self.encoder, Encoder)
        if spec.layer_sum:
            self.layer_sum = LayerSum(spec.encoder.num_layers + 1)
        if spec.pooler:
            self.pooler = Pooler(width)
        if spec.vector is not None:
            self.vector = SequenceVector(spec.vector, width)
        self.head = head(spec.head, width, spec.vocab_size)
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
        """All (B,S), or (B,C,S) for C choices -> the outputs of the graph, by name."""
        if self.spec.head.kind == HeadKind.CHOICES:
            choices, token_type_ids = input_ids.shape[1], _flat(token_type_ids)
            input_ids, attention_mask = input_ids.flatten(0, 1), attention_mask.flatten(0, 1)
            x = self.encoder(input_ids, attention_mask, token_type_ids, _flat(global_attention_mask))
            scores = self.head(x, input_ids, attention_mask)  # (B*C, 1)
            return {names.LOGITS: scores.unflatten(0, (-1, choices)).squeeze(2)}
        layers = layers_of(self.spec, self.outputs, self.spec.encoder, None)
        x = self.encoder(input_ids, attention_mask, token_type_ids, global_attention_mask, layers)
        return self._outputs(x, input_ids, attention_mask) | layers.values

    def encode_signal(self, signal: Tensor, attention_mask: Tensor | None = None) -> dict[str, Tensor]:
        """Pixels or a sound, with its mask if the stack is masked -> the outputs of the graph, by name."""
        layers = layers_of(self.spec, self.outputs, self.spec.encoder, None)
        x, mask = self.encoder(signal, attention_mask, layers)
        if self.spec.head.neck is not None:
            states = self._read_by_head(self.spec.head.neck.layers, layers.states or {}, x)
            return {self._dense(): self.head(states, signal)} | layers.values
        if layers.maps is not None:
            if self.spec.head.map_pyramid or self.spec.head.instance_masks:
                layers.maps[names.PIXEL_VALUES] = signal
            outputs: dict[str, Tensor] = self.head.outputs_of_maps(x, layers.maps)
            return outputs | self._vector(x, None, None)
        if layers.states is not None:
            x = self.layer_sum(layers.states)
            mask = None if mask is None else mask[:, : x.shape[1]]  # also of a squeezed stack's fewer vectors
        return self._outputs(x, None, mask) | layers.values

    def _dense(self) -> str:
        """The name of the output of a head over pixels."""
        of_kinds = {HeadKind.DEPTH: names.PREDICTED_DEPTH, HeadKind.POSE: names.HEATMAPS}
        return of_kinds.get(self.spec.head.kind, names.LOGITS)

    def _read_by_head(self, read: Sequence[int], states: dict[str, Tensor], x: Tensor) -> dict[str, Tensor]:
        """The states of the layers `read`, each after a final norm; x (B,S,W) is that of the last."""
        last, final_norm = self.spec.encoder.num_layers, self.encoder.final_norm
        norm = final_norm if isinstance(final_norm, nn.Module) else nn.Identity()
        return {str(layer): x if layer == last else norm(states[str(layer)]) for layer in read}

    def _outputs(
        self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None
    ) -> dict[str, Tensor]:
        """Hidden states x (B,S,W) -> the heads' outputs, or those states and a vector of the sequence."""
        tokens = input_ids, attention_mask
        word = self.encoder.token_embedding if self.reads_tokens else None
        outputs: dict[str, Tensor] = self.head.outputs(x, tokens, word)
        if self.spec.next_sentence is not None:
            pair = self.next_sentence(x, *tokens)
            return {names.PREDICTION_LOGITS: outputs[names.LOGITS], names.SEQ_RELATIONSHIP_LOGITS: pair}
        if self.spec.distilled:
            first, second = outputs[names.LOGITS], self.distilled(x[:, 1:], None, None)  # (B, labels)
            logits = (first + second) / 2
            return {names.LOGITS: logits, names.CLS_LOGITS: first, names.DISTILLATION_LOGITS: second}
        if self.spec.pooler:
            outputs[names.POOLER_OUTPUT] = self.pooler(x)
        return outputs | self._vector(x, *tokens)

    def _vector(
        self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None
    ) -> dict[str, Tensor]:
        """Hidden states x (B,S,W) -> the vector beside them, if there is one."""
        if self.spec.vector is None:
            return {}
        return {vector_name(self.spec): self.vector(x, input_ids, attention_mask)}


def _flat(ids: Tensor | None) -> Tensor | None:
    return None if ids is None else ids.flatten(0, 1)
