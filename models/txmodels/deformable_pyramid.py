"""Maps of several resolutions whose places attend to points of one another, and a finer one."""

import torch
from torch import Tensor, nn

from txexport.spec import (
    DeformableAttentionSpec,
    DeformablePyramidSpec,
    FeedForwardSpec,
    QueryBlockSpec,
    QueryLayersSpec,
)
from txmodels.deformable_attention import DeformableAttention
from txmodels.feedforward import FeedForward
from txmodels.heads.masks import every_place
from txmodels.heads.segments import bilinear
from txmodels.norm import Norm
from txmodels.pixel_pyramid import NormedConvolution
from txmodels.query_stack import sine_positions


class DeformableLayer(nn.Module):
    """Attention of places to points of all maps, and a network (Zhu et al. 2021, 4.2)."""

    def __init__(self, spec: QueryBlockSpec, layers: QueryLayersSpec, attention: DeformableAttentionSpec):
        super().__init__()
        self.attention = DeformableAttention(attention)
        self.attention_norm = Norm(spec.norm)
        self.feed_forward = FeedForward(
            FeedForwardSpec(spec.hidden_size, layers.intermediate_size, spec.activation)
        )
        self.feed_forward_norm = Norm(spec.norm)

    def forward(
        self, x: Tensor, positions: Tensor, references: Tensor, sizes: dict[str, Tensor], **masks: Tensor
    ) -> Tensor:
        """x and positions (B,S,W), points (1,S,2), rows and columns of each map -> y (B,S,W).

        Of points of each level there are (B,S,L,2). Values are zeros where the mask `real` (B,S) is false.
        """
        read = self.attention(x + positions, references, x, sizes, **masks)
        x = self.attention_norm(x + read)
        y: Tensor = self.feed_forward_norm(x + self.feed_forward(x))
        return y


class DeformablePyramid(nn.Module):
    """Coarser maps through layers, and the finest with the last of them (Cheng et al. 2022, 3.2.2)."""

    def __init__(self, spec: DeformablePyramidSpec):
        super().__init__()
        self.spec, width = spec, spec.hidden_size
        finest, *coarser = spec.sizes
        self.projects = nn.ModuleList(
            NormedConvolution(size, 1, spec.norm, True) for size in reversed(coarser)
        )
        self.levels = nn.Embedding(spec.levels, width)
        self.layers = nn.ModuleList(
            DeformableLayer(spec.block, spec.layers, spec.attention) for _ in range(spec.layers.num_layers)
        )
        self.side = NormedConvolution(finest, 1, spec.norm, False)
        self.convolution = NormedConvolution(width, 3, spec.norm, False)
        self.project = nn.Conv2d(width, spec.size, 1)

    def forward(self, maps: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """maps (B,channels,R,C), the finest first -> pixels (B,size,R,C), maps (B,W,r,c).

        Those returned have the coarsest first.
        """
        finest, *coarser = maps.values()
        vectors, positions, references, sizes = [], [], [], {}
        for number, coarse in enumerate(reversed(coarser)):
            projected = self.projects[number](coarse)  # (B, W, r, c)
            grid = projected.permute(0, 2, 3, 1)  # (B, r, c, W)
            placed = sine_positions(self.spec.hidden_size, every_place(grid)).to(grid)  # (B, s, W)
            positions.append(placed + self.levels.weight[number])
            vectors.append(grid.flatten(1, 2))
            references.append(centres(grid))
            sizes[str(number)] = torch.tensor(grid.shape[1:3], device="cpu")
        x, every = torch.cat(vectors, dim=1), torch.cat(positions, dim=1)  # (B, S, W)
        points = torch.cat(references, dim=1)  # (1, S, 2)
        for layer in self.layers:
            x = layer(x, every, points, sizes)
        levels, start = [], 0
        for size in sizes.values():
            rows, columns = size.tolist()
            level = x[:, start : start + rows * columns].transpose(1, 2).unflatten(2, (rows, columns))
            levels.append(level)
            start += rows * columns
        side = self.side(finest)  # (B, W, R, C)
        total = side + bilinear(levels[-1], torch.tensor(side.shape[2:], device="cpu"))
        pixels: Tensor = self.project(torch.relu(self.convolution(total)))
        return pixels, *levels


def centres(grid: Tensor) -> Tensor:
    """grid (B,R,C,W) -> the centres (1,R*C,2) of places: columns and rows as shares of the grid's."""
    rows, columns = (torch.arange(size, device=grid.device).to(grid) + 0.5 for size in grid.shape[1:3])
    down, across = torch.meshgrid(rows / grid.shape[1], columns / grid.shape[2], indexing="ij")
    points = torch.stack([across, down], dim=2).flatten(0, 1)[None]
    return points
