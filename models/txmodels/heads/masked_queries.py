"""Labels and masks of an image's segments, by masked attention (Cheng et al. 2022, 3.2)."""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec
from txexport.spec.masks import MASK_LAYERS
from txmodels.deformable_pyramid import DeformablePyramid
from txmodels.heads.boxes import perceptron
from txmodels.heads.masks import every_place, mask_scores
from txmodels.heads.segments import bilinear
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.query_stack import QueryLayer, sine_positions


class MaskedQueriesHead(nn.Module):
    """Queries that read maps within their own masks; a label and a mask of each (Cheng et al. 2022, 3.2)."""

    def __init__(self, spec: HeadSpec):
        super().__init__()
        assert spec.masked_queries is not None
        masks = self.spec = spec.masked_queries
        width, layers, maps = masks.hidden_size, masks.layers, masks.pyramid.hidden_size
        self.pyramid = DeformablePyramid(masks.pyramid)
        projects = range(masks.pyramid.levels if masks.projected else 0)
        self.projects = nn.ModuleList(nn.Conv2d(maps, width, 1) for _ in projects)
        self.levels = nn.Embedding(masks.pyramid.levels, width)
        self.queries = nn.Embedding(masks.queries, width)
        self.first = nn.Embedding(masks.queries, width)
        self.query_layers = nn.ModuleList(
            QueryLayer(masks.block, layers, True) for _ in range(layers.num_layers)
        )
        self.query_norm = Norm(masks.block.norm)
        self.classes = Linear(width, spec.labels)
        sizes = [width] * (MASK_LAYERS - 1) + [masks.pyramid.size]
        self.mask = nn.ModuleList(Linear(width, size) for size in sizes)

    def forward(self, maps: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """maps (B,R,C,channels), the finest first -> class logits (B,Q,labels), mask logits (B,Q,R,C)."""
        channels = {name: x.permute(0, 3, 1, 2) for name, x in maps.items()}
        pixels, *levels = self.pyramid(channels)  # (B, F, R, C), (B, W, r, c)
        images, positions = [], []
        for number, level in enumerate(levels):
            x = self.projects[number](level) if self.spec.projected else level
            grid = x.permute(0, 2, 3, 1)  # (B, r, c, W)
            images.append(grid.flatten(1, 2) + self.levels.weight[number])  # (B, s, W)
            positions.append(sine_positions(self.spec.hidden_size, every_place(grid)).to(grid))
        learned = self.queries.weight.expand(pixels.shape[0], -1, -1)  # (B, Q, W)
        y = self.first.weight.expand(pixels.shape[0], -1, -1)
        for number, layer in enumerate(self.query_layers):
            at = number % len(levels)
            masks = mask_scores(perceptron(self.mask, self.query_norm(y)), pixels)
            seen = within_masks(masks, levels[at])
            y = layer(y, learned, seen, images[at], positions[at])
        queries = self.query_norm(y)
        return self.classes(queries), mask_scores(perceptron(self.mask, queries), pixels)

    def outputs_of_maps(self, x: Tensor, maps: dict[str, Tensor]) -> dict[str, Tensor]:
        """The graph's outputs: class_queries_logits (B,Q,labels) and masks_queries_logits (B,Q,R,C)."""
        classes, masks = self(maps)
        return {names.CLASS_QUERIES_LOGITS: classes, names.MASKS_QUERIES_LOGITS: masks}


def within_masks(masks: Tensor, level: Tensor) -> Tensor:
    """mask logits (B,Q,R,C), a map (B,W,r,c) -> which places each query sees (B,1,Q,r*c).

    Those within its mask, or all where the mask has none.
    """
    inside = bilinear(masks, torch.tensor(level.shape[2:], device="cpu")).flatten(2) >= 0  # (B, Q, r * c)
    seen = (inside | ~inside.any(2, keepdim=True))[:, None]
    return seen


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> MaskedQueriesHead:
    """The head of a model's spec."""
    return MaskedQueriesHead(spec)
