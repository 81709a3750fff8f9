"""Pages and queries as a vector for each token (Faysse et al. 2024, 4)."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.parts import check_outputs
from txexport.spec import Cache, VisualRetrieverSpec
from txmodels.connector import Connector
from txmodels.encoder_stack import Encoder, SignalEncoder
from txmodels.linear import Linear
from txmodels.splice import spliced


class VisualRetrieverModel(nn.Module):
    """An image encoder with its connector, a stack that reads images among tokens, and a projection."""

    def __init__(self, spec: VisualRetrieverSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        self.text, self.vision = Encoder(spec.text), SignalEncoder(spec.vision)
        self.connector = Connector(spec.connector)
        self.projection = Linear(spec.text.hidden_size, spec.size)

    def images(self, pixel_values: Tensor, **grids: Tensor) -> dict[str, Tensor]:
        """pixel_values (I,channels,height,width) -> image_features (N,W), of all images.

        Of images of any size, patches (P,numbers) with grids (I,3).
        """
        x, _ = self.vision(pixel_values, grids=next(iter(grids.values()), None))  # (I, S, W)
        features = self.connector(x)
        return {names.IMAGE_FEATURES: features.flatten(0, 1)}

    def vectors(self, input_ids: Tensor, attention_mask: Tensor, image_features: Tensor) -> dict[str, Tensor]:
        """input_ids and attention_mask (B,S), image_features (N,W) -> embeddings (B,S,size)."""
        x = self.text.embedding(input_ids, input_ids, None, None)  # (B, S, W), which have no positions
        x = spliced(self.spec.image_token_id, x, input_ids, image_features)
        x = self.text(input_ids, attention_mask, inputs_embeds=x)
        return {names.EMBEDDINGS: unit_unless_masked(self.projection(x), attention_mask)}

    def pages(self, input_ids: Tensor, attention_mask: Tensor, **images: Tensor) -> dict[str, Tensor]:
        """The outputs of both graphs; without images, image_features has no rows."""
        read = self.images(**images) if images else {}
        none = self.projection.weight.new_zeros(0, self.spec.text.hidden_size)
        features = read.get(names.IMAGE_FEATURES, none)
        return {**read, **self.vectors(input_ids, attention_mask, features)}


def unit_unless_masked(x: Tensor, attention_mask: Tensor) -> Tensor:
    """x (B,S,D), attention_mask (B,S) -> L2-normalised vectors (B,S,D), zeros where the mask is 0."""
    y = x / torch.sqrt((x * x).sum(dim=-1, keepdim=True))
    y = torch.where(attention_mask[:, :, None] > 0, y, torch.zeros_like(y))
    return y
