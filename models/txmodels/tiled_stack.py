"""Layers over all tiles of an image, locally and then globally (Meta 2024, Llama 3.2)."""

import torch
from torch import Tensor, nn

from txexport.spec import TiledStackSpec
from txmodels.block import EncoderBlock
from txmodels.inputs.tiles import TilesEmbedding, TileVectors
from txmodels.norm import Norm


class TiledEncoder(nn.Module):
    """A stack that reads all tiles of an image at once."""

    def __init__(self, spec: TiledStackSpec):
        super().__init__()
        self.spec = spec
        self.embedding = TilesEmbedding(spec.embedding)
        self.layers = nn.ModuleList(EncoderBlock(block) for block in spec.layers)
        self.middle_norm = Norm(spec.middle_norm)
        self.after = TileVectors(spec.embedding)

    def forward(self, pixel_values: Tensor, ratios: Tensor, tile_mask: Tensor) -> Tensor:
        """pixel_values (I,T,channels,side,side), ratios (I), tile_mask (I,T) -> x (I,T*N,W).

        Each vector is the last layer's, and then each number's outputs of the layers that are read.
        """
        embedding = self.spec.embedding
        mask = tile_attention_mask(embedding.vectors_of_tile, embedding.padded, tile_mask)  # (I, 1, S, S)
        tiles = self.embedding(pixel_values, ratios)  # (I, T, M, W)
        x, states = tiles.flatten(1, 2), []  # (I, T*M, W)
        for layer in self.layers[: self.spec.local_layers]:
            (x,) = layer(x, mask=mask, cos=None, sin=None)
            states.append(x)
        x = self.middle_norm(x).unflatten(1, (embedding.tiles, -1))  # (I, T, M, W)
        x = (x + self.after(ratios)).flatten(1, 2)  # (I, T*M, W)
        for layer in self.layers[self.spec.local_layers :]:
            (x,) = layer(x, mask=mask, cos=None, sin=None)
        read = torch.stack([states[layer] for layer in self.spec.read], dim=-1).flatten(2)
        every = torch.cat([x, read], dim=-1).unflatten(1, (embedding.tiles, -1))  # (I, T, M, W')
        y = every[:, :, : embedding.vectors_of_tile].flatten(1, 2)  # (I, T*N, W')
        return y


def tile_attention_mask(vectors: int, padded: int, tile_mask: Tensor) -> Tensor:
    """tile_mask (I,T) -> mask (I,1,S,S): no padding sees padding, and all else sees all.

    Of the `padded` vectors of a tile the first `vectors` are real, unless the tile itself is padding.
    """
    real = torch.arange(padded, device=tile_mask.device) < vectors  # (M)
    real = ((tile_mask > 0)[:, :, None] & real).flatten(1)  # (I, S)
    mask = real[:, None, :, None] | real[:, None, None, :]  # (I, 1, S, S)
    return mask
