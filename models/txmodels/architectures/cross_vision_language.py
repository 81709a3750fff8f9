"""A decoder some of whose layers attend to images."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from txexport.contracts import cache_names, names
from txexport.parts import check_outputs
from txexport.spec import Cache, CrossVisionLanguageSpec, SourceAttentionSpec
from txmodels.architectures._model import empty_past
from txmodels.attention import CrossKeyValue
from txmodels.decoder_stack import Decoder, KeyValues
from txmodels.heads.causal_lm import CausalLMHead
from txmodels.image_mask import image_mask
from txmodels.linear import Linear
from txmodels.position import positions
from txmodels.tiled_stack import TiledEncoder

LAST = 2**31 - 1  # the end of a span without one


class CrossVisionLanguageModel(nn.Module):
    """An image encoder, a projector, a decoder and a causal LM head (Alayrac et al. 2022, 2)."""

    def __init__(self, spec: CrossVisionLanguageSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        self.vision = TiledEncoder(spec.vision)
        self.projector = Linear(spec.vision.output_size, spec.width)
        kinds = {str(layer): spec.decoder.layers[layer].attention for layer in spec.crossed}
        self.cross = nn.ModuleDict(
            {
                layer: CrossKeyValue(kind.attention)
                for layer, kind in kinds.items()
                if isinstance(kind, SourceAttentionSpec)
            }
        )
        self.decoder = Decoder(spec.decoder, cache)
        self.head = CausalLMHead(spec.head, spec.width, spec.vocab_size)

    def images(
        self, pixel_values: Tensor, aspect_ratio_ids: Tensor, aspect_ratio_mask: Tensor
    ) -> dict[str, Tensor]:
        """pixel_values (I,T,channels,side,side), ids (I), mask (I,T) -> image_features (I,N,W).

        With their keys and values (I,K,N,H) for each layer that attends to them.
        """
        x = self.vision(pixel_values, aspect_ratio_ids, aspect_ratio_mask)
        features = self.projector(x)  # (I, N, W)
        outputs = {names.IMAGE_FEATURES: features}
        for layer, project in self.cross.items():
            outputs |= zip(cache_names.present(layer, cache_names.ENCODER), project(features), strict=True)
        return outputs

    def media(self, **inputs: Tensor) -> dict[str, Tensor]:
        """As `images`."""
        return self.images(**inputs)

    def read_images(
        self, input_ids: Tensor, outputs: Mapping[str, Tensor], source: Mapping[str, Tensor]
    ) -> dict[str, Any]:
        """The inputs of `decode` for one row (1,S) from its start, of `images` and what these read."""
        tiles = source[names.ASPECT_RATIO_MASK].sum(dim=1)  # (I)
        crossed = {
            cache_names.to_past(name): value.transpose(0, 1).flatten(1, 2)[None]  # (1, K, I*N, H)
            for name, value in outputs.items()
            if cache_names.is_present(name)
        }
        return {names.IMAGE_SPANS: _spans(self.spec.image_token_id, input_ids, tiles), "crossed": crossed}

    def decode(
        self, input_ids: Tensor, past: KeyValues, logits_indices: Tensor | None = None, **inputs
    ) -> tuple[Tensor, KeyValues]:
        """As `Decoder`, with logits_indices (B,L) and images -> logits (B,L,V), present."""
        logits, present, _ = self.decode_layers(input_ids, past, logits_indices, **inputs)
        return logits, present

    def decode_layers(
        self,
        input_ids: Tensor,
        past: KeyValues,
        logits_indices: Tensor | None = None,
        image_spans: Tensor | None = None,
        crossed: Mapping[str, Tensor] | None = None,
        **inputs,
    ) -> tuple[Tensor, KeyValues, dict[str, Tensor]]:
        """As `decode`, and outputs of layers by name, of which there are none.

        Images are image_spans (B,I,3), and `crossed` their keys and values (B,K,E,H) by the names of inputs;
        without images, no layer attends to any.
        """
        spec, images = self.spec, {}
        spans = input_ids.new_zeros(len(input_ids), 0, 3) if image_spans is None else image_spans
        if names.CACHE_LENGTHS in inputs:
            position_ids = positions(input_ids, inputs[names.CACHE_LENGTHS])
        elif names.POSITION_IDS in inputs:
            position_ids = inputs[names.POSITION_IDS]
        else:
            position_ids = positions(input_ids, input_ids.new_full((len(input_ids),), self._length(past)))
        embedding = spec.vision.embedding
        for layer in spec.crossed:
            k, v = self._keys(layer, len(input_ids), crossed)
            mask, sees = image_mask(embedding.tiles, embedding.vectors_of_tile, spans, position_ids, k)
            images[layer] = {"mask": mask, "sees": sees, "k": k, "v": v}
        last, rest = (logits_indices, None) if self.decoder.static else (None, logits_indices)
        x, present = self.decoder(input_ids, past, images=images, logits_indices=last, **inputs)
        return self.head(x, rest, self.decoder.token_embedding), present, {}

    def _length(self, past: KeyValues) -> int:
        """The past tokens of a growing cache."""
        return next(pair[0].shape[2] for pair in past if pair)

    def _keys(self, layer: int, batch: int, crossed: Mapping[str, Tensor] | None) -> tuple[Tensor, Tensor]:
        """The keys and values (B,K,E,H) of a layer that attends to images, one that nobody sees without."""
        if crossed is not None:
            k, v = (crossed[name] for name in cache_names.past(layer, cache_names.ENCODER))
            return k, v
        kind = self.spec.decoder.layers[layer].attention
        assert isinstance(kind, SourceAttentionSpec)
        shape = batch, kind.attention.num_kv_heads, 1, kind.attention.head_dim
        weight = self.projector.weight
        return weight.new_zeros(shape), weight.new_zeros(shape)

    def empty_past(self, batch: int, capacity: int = 0) -> KeyValues:
        """An empty cache: zeros (B,K,capacity,H) for each layer with keys of tokens."""
        return empty_past(self.spec.decoder, batch, capacity)


def _spans(image_token_id: int, input_ids: Tensor, tiles: Tensor) -> Tensor:
    """input_ids (1,S), tiles of its images (I) -> who sees each, from and up to, and tiles (1,I,3).

    Tokens see the image before them, and those adjacent to it.
    """
    first = (input_ids[0] == image_token_id).nonzero()[:, 0]  # (I)
    end = torch.cat([first[1:], first.new_full((1,), LAST)])
    for number in reversed(range(len(first) - 1)):
        if end[number] == first[number] + 1:
            end[number] = end[number + 1]
    return torch.stack([first, end, tiles], dim=1)[None]
