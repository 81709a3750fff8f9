"""A decoder without an encoder, over a cache of past keys and values."""

from collections.abc import Collection

from torch import Tensor, nn

from txexport.contracts import names
from txexport.parts import check_outputs
from txexport.spec import Cache, DecoderSpec
from txmodels.architectures._model import empty_past, layers_of
from txmodels.decoder_stack import Decoder, KeyValues
from txmodels.heads.causal_lm import CausalLMHead


class DecoderModel(nn.Module):
    """A stack and a causal LM head; `outputs` of every layer are returned too, as a contract has them."""

    def __init__(self, spec: DecoderSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        self.decoder = Decoder(spec.decoder, cache, names.ATTENTIONS in self.outputs)
        self.head = CausalLMHead(spec.head, spec.decoder.hidden_size, spec.vocab_size)

    def decode(
        self, input_ids: Tensor, past: KeyValues, logits_indices: Tensor | None = None, **inputs
    ) -> tuple[Tensor, KeyValues]:
        """As `Decoder`, and logits_indices (B,L) -> logits (B,L,V), present."""
        logits, present, _ = self.decode_layers(input_ids, past, logits_indices, **inputs)
        return logits, present

    def decode_layers(
        self, input_ids: Tensor, past: KeyValues, logits_indices: Tensor | None = None, **inputs
    ) -> tuple[Tensor, KeyValues, dict[str, Tensor]]:
        """As `decode`, with the requested outputs of every layer, by name."""
        layers = layers_of(self.spec, self.outputs, self.spec.decoder, None)
        # For unscored tokens the last layer computes only keys and values, unless its outputs are requested.
        joins = self.spec.decoder.layers[-1].joins_embedding  # its states need those of all tokens
        early = self.decoder.static and not self.outputs and not joins
        last, rest = (logits_indices, None) if early else (None, logits_indices)
        x, present = self.decoder(input_ids, past, given=layers, logits_indices=last, **inputs)
        return self.head(x, rest, self.decoder.token_embedding), present, layers.values

    def empty_past(self, batch: int, capacity: int = 0) -> KeyValues:
        """An empty cache: zeros (B,K,capacity,H) for each layer."""
        return empty_past(self.spec.decoder, batch, capacity)
