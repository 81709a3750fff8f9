"""Patches of all tiles of an image (Meta 2024, Llama 3.2)."""

import torch
from torch import Tensor, nn

from txexport.spec import TilesSpec
from txmodels.gate import Gate
from txmodels.norm import Norm


class TileVectors(nn.Module):
    """Vectors of the tiles of an image, by its aspect ratio, times a gate."""

    def __init__(self, spec: TilesSpec):
        super().__init__()
        self.tiles = spec.tiles
        self.weight = nn.Parameter(torch.zeros(spec.ratios + 1, spec.tiles * spec.hidden_size))
        self.gate = Gate()

    def forward(self, ratios: Tensor) -> Tensor:
        """ratios (I) -> (I,T,1,W)."""
        y: Tensor = self.gate(self.weight[ratios].unflatten(1, (self.tiles, 1, -1)))
        return y


class TilesEmbedding(nn.Module):
    """Patches of tiles, projected, after the vector of their class, plus positions."""

    def __init__(self, spec: TilesSpec):
        super().__init__()
        self.spec = spec
        width, side = spec.hidden_size, spec.patch_size
        self.project = nn.Conv2d(spec.channels, width, side, side, bias=False)
        self.before = TileVectors(spec)
        self.token, self.position = nn.Embedding(1, width), nn.Embedding(spec.vectors_of_tile, width)
        self.position_gate = Gate()
        self.tile_position = nn.Embedding(spec.ratios + 1, spec.length * width)
        self.norm = Norm(spec.norm)

    def forward(self, pixel_values: Tensor, ratios: Tensor) -> Tensor:
        """pixel_values (I,T,channels,side,side), ratios (I) -> x (I,T,N,W), zeros for padding of a tile."""
        spec = self.spec
        grid = self.project(pixel_values.flatten(0, 1))  # (I*T, W, rows, columns)
        patches = grid.flatten(2).mT.unflatten(0, (-1, spec.tiles))  # (I, T, patches, W)
        patches = patches + self.before(ratios)
        first = self.token.weight.expand(*patches.shape[:2], 1, -1)
        x = torch.cat([first, patches], dim=2)  # (I, T, 1 + patches, W)
        x = x + (1 - self.position_gate.weight.tanh()) * self.position.weight
        in_tiles = self.tile_position(ratios).unflatten(1, (spec.tiles, spec.vectors_of_tile, -1))
        x = self.norm(x + self.position_gate(in_tiles))
        x = nn.functional.pad(x, (0, 0, 0, spec.padded - spec.vectors_of_tile))
        return x


Embedding = TilesEmbedding
