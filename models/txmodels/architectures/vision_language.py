"""A decoder that reads images or sounds among its tokens."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.parts import check_outputs
from txexport.spec import Cache, Mutual, VisionLanguageSpec
from txmodels.architectures._model import empty_past
from txmodels.connector import Connector
from txmodels.decoder_stack import Decoder, KeyValues
from txmodels.encoder_stack import SignalEncoder
from txmodels.heads.causal_lm import CausalLMHead
from txmodels.mosaic import Mosaic
from txmodels.patch_merger import PatchMerger
from txmodels.real_vectors import real_vectors
from txmodels.splice import spliced
from txmodels.squares import squares
from txmodels.stack import Given


class VisionLanguageModel(nn.Module):
    """An encoder of images or sounds, a connector, a decoder and a causal LM head (Liu et al. 2023, 4.1)."""

    def __init__(self, spec: VisionLanguageSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        self.vision = SignalEncoder(spec.vision)
        self.connector = Connector(spec.connector)
        self.mosaic = None if spec.mosaic is None else Mosaic(spec.mosaic, spec.connector.size)
        patches, merger = spec.vision.patches, spec.merger
        self.merger = PatchMerger(merger, patches.patch_size) if merger and patches else None
        if spec.deep_connector is not None:
            self.deep = nn.ModuleList(Connector(spec.deep_connector) for _ in spec.deep)
        mutual_id = spec.image_token_id if spec.mutual == Mutual.IMAGE else None
        self.decoder = Decoder(spec.decoder, cache, mutual_id=mutual_id)
        self.head = CausalLMHead(spec.head, spec.decoder.hidden_size, spec.vocab_size)

    def images(self, pixel_values: Tensor, **grids: Tensor) -> dict[str, Tensor]:
        """pixel_values (I,channels,height,width) -> image_features (I,N,W).

        Of images of any size, patches (P,numbers) with grids (I,3) -> image_features (N,W); or of those in
        tiles, with tile_grid (I,6); or patches (I,P,numbers) with pixel_attention_mask (I,P) and
        spatial_shapes (I,2); or pixels of any height and width, or with image_sizes (I,2) beyond which is
        padding.
        """
        if self.spec.masked_images:
            return {names.IMAGE_FEATURES: self._of_any_shape(pixel_values, **grids)}
        if self.mosaic is not None:
            features = self.connector(self.vision(pixel_values)[0])  # (T, N, W)
            tile_grid = grids[names.TILE_GRID]
            counts = (1 + tile_grid[:, 0] * tile_grid[:, 1]).tolist()
            images = zip(features.split(counts), tile_grid.split(1), strict=True)
            return {names.IMAGE_FEATURES: torch.cat([self.mosaic(*one) for one in images])}
        if self.spec.square:
            return {names.IMAGE_FEATURES: self._of_any_size(pixel_values, grids.get(names.IMAGE_SIZES))}
        states: dict[str, Tensor] | None = {} if self.spec.deep else None
        x, _ = self.vision(pixel_values, grids=next(iter(grids.values()), None), given=Given(states=states))
        features = self.connector(x)
        if states is not None:
            below = [states[str(layer + 1)] for layer in self.spec.deep]
            deep = [part(state) for part, state in zip(self.deep, below, strict=True)]
            features = torch.cat([features, *deep], dim=-1)
        return {names.IMAGE_FEATURES: features[0] if grids else features}

    def sounds(
        self, input_features: Tensor, feature_attention_mask: Tensor | None = None
    ) -> dict[str, Tensor]:
        """input_features (I,bands,frames) -> audio_features (N,W), without those of padding if it has a mask.

        The mask is feature_attention_mask (I,frames).
        """
        x, mask = self.vision(input_features, feature_attention_mask)  # (I, S, W), (I, S)
        features = self.connector(x)
        if mask is None:
            return {names.AUDIO_FEATURES: features.flatten(0, 1)}  # (N, W)
        return {names.AUDIO_FEATURES: real_vectors(self.spec.connector.consecutive, features, mask)}

    def media(self, **inputs: Tensor) -> dict[str, Tensor]:
        """As `sounds` where the spec has sounds, else as `images`."""
        return self.sounds(**inputs) if self.spec.sounds else self.images(**inputs)

    def _of_any_shape(
        self, pixel_values: Tensor, pixel_attention_mask: Tensor, spatial_shapes: Tensor
    ) -> Tensor:
        """Patches (I,P,numbers), their mask (I,P), spatial_shapes (I,2) -> image_features (N,W)."""
        x, mask = self.vision(pixel_values, pixel_attention_mask, spatial_shapes=spatial_shapes)  # (I, P, W)
        x = squares(self.spec.connector.merged, x, mask, spatial_shapes)  # (1, all patches, W)
        features: Tensor = self.connector(x)[0]
        return features

    def _of_any_size(self, pixel_values: Tensor, image_sizes: Tensor | None) -> Tensor:
        """pixel_values (I,channels,height,width), padded beyond image_sizes (I,2) -> features (N,W)."""
        sizes = [(None, None)] if image_sizes is None else image_sizes.tolist()
        rows = [pixel_values] if image_sizes is None else pixel_values.split(1)
        features = []
        for image, (height, width) in zip(rows, sizes, strict=True):
            pixels = image[:, :, :height, :width]
            x, _ = self.vision(pixels)  # (I, P, W)
            x = x if self.merger is None else self.merger(x, pixels)
            features.append(self.connector(x).flatten(0, 1))
        return torch.cat(features)

    def read_images(
        self, input_ids: Tensor, image_features: Tensor, source: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """The inputs of `decode` for rows (B,S) from their start, of `images` and what these read."""
        if self.spec.sounds:
            return {names.AUDIO_FEATURES: image_features}
        result = {names.IMAGE_FEATURES: image_features.flatten(0, -2)}
        packed = self.spec.vision.packed
        if packed is not None:
            sides = source[packed.grids][:, 1:] // packed.merged  # (I, 2)
            result[names.POSITION_IDS] = _grid_positions(self.spec.image_token_id, input_ids, sides)
        return result

    def tokens(self, input_ids: Tensor) -> Tensor:
        """input_ids (B,S) -> their vectors (B,S,W), which have no positions."""
        x: Tensor = self.decoder.embedding(input_ids, input_ids, None, None)
        return x

    def decode(
        self, input_ids: Tensor, past: KeyValues, logits_indices: Tensor | None = None, **inputs
    ) -> tuple[Tensor, KeyValues]:
        """As `Decoder`, with logits_indices (B,L) and image_features (N,W) -> logits (B,L,V), present.

        Of sounds, audio_features (N,W) in their place.
        """
        logits, present, _ = self.decode_layers(input_ids, past, logits_indices, **inputs)
        return logits, present

    def decode_layers(
        self,
        input_ids: Tensor,
        past: KeyValues,
        logits_indices: Tensor | None = None,
        image_features: Tensor | None = None,
        audio_features: Tensor | None = None,
        **inputs,
    ) -> tuple[Tensor, KeyValues, dict[str, Tensor]]:
        """As `decode`, and outputs of layers by name, of which there are none."""
        x = self.tokens(input_ids)
        if audio_features is not None:
            x = spliced(self.spec.image_token_id, x, input_ids, audio_features)
        if image_features is not None:
            first, *deep = image_features.split(x.shape[2], dim=1)
            zeros, token = torch.zeros_like(x), self.spec.image_token_id
            behind = [spliced(token, zeros, input_ids, one) for one in deep]
            x = torch.cat([spliced(token, x, input_ids, first), *behind], dim=2)
        last, rest = (logits_indices, None) if self.decoder.static else (None, logits_indices)
        x, present = self.decoder(input_ids, past, inputs_embeds=x, logits_indices=last, **inputs)
        return self.head(x, rest, self.decoder.token_embedding), present, {}

    def empty_past(self, batch: int, capacity: int = 0) -> KeyValues:
        """An empty cache: zeros (B,K,capacity,H) for each layer."""
        return empty_past(self.spec.decoder, batch, capacity)


def _grid_positions(image_token_id: int, input_ids: Tensor, sides: Tensor) -> Tensor:
    """input_ids (B,S), rows and columns (I,2) of the images among them -> positions (3,B,S).

    They count frames, rows and columns within an image, from the position behind the text before it on; a
    text behind it goes on from the largest of them, the same on each axis (Wang et al. 2024, 2.1).
    """
    images, rows = iter(sides.tolist()), []
    for row in input_ids.tolist():
        triples: list[tuple[int, int, int]] = []
        start = 0
        while len(triples) < len(row):
            if row[len(triples)] == image_token_id and (grid := next(images, None)) is not None:
                down, across = grid
                triples += [(start, start + y, start + x) for y in range(down) for x in range(across)]
                start += max(down, across)
            else:
                triples.append((start, start, start))
                start += 1
        rows.append(triples)
    return torch.tensor(rows, device=input_ids.device).permute(2, 0, 1)
