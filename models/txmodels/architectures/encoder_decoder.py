"""An encoder, and a decoder that attends to it."""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from txexport.contracts import cache_names, names
from txexport.parts import check_outputs
from txexport.spec import Cache, EncoderDecoderSpec
from txexport.spec.lengths import adapter_of
from txmodels.architectures._model import empty_past, encoder, layers_of
from txmodels.attention import CrossKeyValue
from txmodels.decoder_stack import Decoder, KeyValues
from txmodels.dual_attention import Pictures
from txmodels.encoder_stack import Encoder, SignalEncoder
from txmodels.heads import head
from txmodels.heads.causal_lm import CausalLMHead
from txmodels.linear import Linear
from txmodels.source_mask import source_mask


class EncoderDecoderModel(nn.Module):
    """Two stacks and the head; `outputs` of every layer are returned too, as a contract has them.

    With an alignment, so are the weights of the decoder's attention, and those of the heads that align.
    """

    def __init__(self, spec: EncoderDecoderSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        weighted, width = names.ATTENTIONS in self.outputs, spec.decoder.hidden_size
        self.pictures = None if spec.pictures is None else Pictures(spec.pictures)
        self.vision = None if spec.vision is None else SignalEncoder(spec.vision)
        read = [block.cross_attention for block in spec.encoder.layers if block.cross_attention]
        self.seen = nn.ModuleList(map(CrossKeyValue, read))
        self.encoder = encoder(spec.encoder, weighted)
        self.reads_tokens = isinstance(self.encoder, Encoder)
        if spec.projected:
            self.cross_projection = Linear(spec.source_size, width)
        crossed = [block.cross_attention for block in spec.decoder.layers if block.cross_attention]
        self.cross = nn.ModuleList(map(CrossKeyValue, crossed))
        weighted = weighted or spec.alignment is not None
        self.decoder = Decoder(spec.decoder, cache if spec.generates else Cache.DYNAMIC, weighted)
        if spec.shared_embedding and isinstance(self.encoder, Encoder):
            self.decoder.embedding.word = self.encoder.embedding.word
        self.head: Any = (CausalLMHead if spec.generates else head)(spec.head, width, spec.vocab_size)

    def encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        pixel_values: Tensor | None = None,
        image_features: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """All (B,S) -> the outputs of the encoder's graph, or of a single graph of both stacks, by name.

        pixel_values (I,channels,height,width) are images among the tokens, or one for each row, to which its
        tokens attend; their vectors are returned too. Given image_features (N,W) or (B,E,W) stand for them.
        """
        layers = layers_of(self.spec, self.outputs, self.spec.encoder, names.ENCODER)
        images, features = {}, image_features
        if pixel_values is not None:
            images = self.images(pixel_values)
            features = images[names.IMAGE_FEATURES]  # (I, N, W)
            features = features if self.pictures is None else features.flatten(0, 1)
        tokens = attention_mask, token_type_ids, global_attention_mask
        if self.vision is None:
            x = self.encoder(input_ids, *tokens, layers, image_features=features)
        else:
            x = self.encoder(input_ids, *tokens, layers, cross=[pair(features) for pair in self.seen])
        if self.spec.generates:
            return images | self._hidden_states(x) | layers.values
        x, again = self._read_again(x, input_ids, attention_mask)
        outputs: dict[str, Tensor] = self.head.outputs(x, (input_ids, attention_mask), None)
        return outputs | layers.values | again

    def images(self, pixel_values: Tensor) -> dict[str, Tensor]:
        """pixel_values (I,channels,height,width) -> the vectors (I,N,W) of images, by the graph's name."""
        if self.vision is None:
            assert self.pictures is not None
            return {names.IMAGE_FEATURES: self.pictures(pixel_values)}
        features, _ = self.vision(pixel_values)
        return {names.IMAGE_FEATURES: features}

    def encode_signal(self, signal: Tensor, attention_mask: Tensor | None = None) -> dict[str, Tensor]:
        """Pixels or a sound -> the outputs of the encoder's graph, by name.

        A masked encoder reads the attention_mask (B,N) of its signal, by default that of one without padding.
        """
        layers = layers_of(self.spec, self.outputs, self.spec.encoder, names.ENCODER)
        if self.spec.masked and attention_mask is None:
            attention_mask = torch.ones(signal.shape[:2], dtype=torch.long)
        x, mask = self.encoder(signal, attention_mask, layers)  # (B, E, W), (B, E)
        outputs = self._hidden_states(x) | layers.values
        if self.spec.masked:
            assert attention_mask is not None
            if adapter_of(self.spec.encoder) is None:
                mask = source_mask(self.spec.counted, attention_mask, x.shape[1])  # (B, E)
            outputs[names.ENCODER_ATTENTION_MASK] = mask
        return outputs

    def _hidden_states(self, x: Tensor) -> dict[str, Tensor]:
        """The encoder's x (B,S,W), and its keys and values for the decoder."""
        outputs = {names.LAST_HIDDEN_STATE: x}
        for i, pair in enumerate(self._cross(x)):
            outputs |= zip(cache_names.present(i, cache_names.ENCODER), pair, strict=True)
        return outputs

    def _read_again(
        self, x: Tensor, input_ids: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The encoder's x (B,S,W), its tokens and mask (B,S) -> the decoder's x (B,S,W) of these tokens."""
        assert self.spec.decoder_start_token_id is not None
        first = torch.full_like(input_ids[:, :1], self.spec.decoder_start_token_id)
        later = torch.cat([first, input_ids[:, :-1]], dim=1)  # (B, S)
        cross, nothing = self._cross(x), self.empty_past(input_ids.shape[0])
        layers = layers_of(self.spec, self.outputs, self.spec.decoder, names.DECODER)
        x, _ = self.decoder(later, nothing, source=(attention_mask, cross), given=layers)
        return x, layers.values

    def _cross(self, x: Tensor) -> KeyValues:
        """The encoder's x (B,S,W) -> its keys and values (B,K,S,H) for each layer of the decoder."""
        if self.spec.projected:
            x = self.cross_projection(x)
        return [pair(x) for pair in self.cross]

    def decode(
        self, input_ids: Tensor, past: KeyValues, logits_indices: Tensor | None = None, **inputs
    ) -> tuple[Tensor, KeyValues]:
        """As `Decoder`, with logits_indices (B,L), the encoder's mask (B,E), and its keys and values `cross`.

        Returns logits (B,L,V), present.
        """
        logits, present, _ = self.decode_layers(input_ids, past, logits_indices, **inputs)
        return logits, present

    def decode_layers(
        self,
        input_ids: Tensor,
        past: KeyValues,
        logits_indices: Tensor | None = None,
        *,
        cross: KeyValues,
        encoder_attention_mask: Tensor | None = None,
        **inputs,
    ) -> tuple[Tensor, KeyValues, dict[str, Tensor]]:
        """As `decode`, with the requested outputs of every layer, by name.

        Only the head reads logits_indices: with an encoder, new tokens come one by one.
        """
        weights = () if self.spec.alignment is None else (names.ATTENTIONS,)
        layers = layers_of(self.spec, self.outputs.union(weights), self.spec.decoder, names.DECODER)
        source = encoder_attention_mask, cross
        x, present = self.decoder(input_ids, past, source=source, given=layers, **inputs)
        logits = self.head(x, logits_indices, self.decoder.token_embedding)
        return logits, present, layers.values | self._alignment(layers.values)

    def _alignment(self, layers: dict[str, Tensor]) -> dict[str, Tensor]:
        """Weights of every layer (B,N,S,E) -> those of the alignment's heads (B,A,S,E), by name."""
        if self.spec.alignment is None:
            return {}
        heads = [
            layers[names.of_layer(names.CROSS_ATTENTIONS, layer)][:, head]
            for layer, head in self.spec.alignment.heads
        ]
        return {names.ALIGNMENT_WEIGHTS: torch.stack(heads, dim=1)}

    def empty_past(self, batch: int, capacity: int = 0) -> KeyValues:
        """An empty cache: zeros (B,K,capacity,H) for each layer."""
        return empty_past(self.spec.decoder, batch, capacity)
