"""Labels and masks of an image's segments (Cheng et al. 2021, 3.2 and 3.4)."""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec
from txexport.spec.masks import MASK_LAYERS
from txmodels.heads.boxes import perceptron
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.pixel_pyramid import PixelPyramid
from txmodels.query_stack import QueryLayer, sine_positions


class MasksHead(nn.Module):
    """Queries that read the coarsest map; a label and a mask of each (Cheng et al. 2021, 3.2 and 3.4)."""

    def __init__(self, spec: HeadSpec):
        super().__init__()
        assert spec.masks is not None
        masks = self.spec = spec.masks
        width, layers = masks.hidden_size, masks.layers
        self.pyramid = PixelPyramid(masks.pyramid)
        self.project = nn.Conv2d(masks.pyramid.sizes[-1], width, 1) if masks.projected else nn.Identity()
        self.queries = nn.Embedding(masks.queries, width)
        self.query_layers = nn.ModuleList(
            QueryLayer(masks.block, layers, True) for _ in range(layers.num_layers)
        )
        self.query_norm = Norm(masks.norm)
        self.classes = Linear(width, spec.labels)
        sizes = [width] * (MASK_LAYERS - 1) + [masks.pyramid.size]
        self.mask = nn.ModuleList(Linear(width, size) for size in sizes)

    def forward(self, maps: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """maps (B,R,C,channels), the finest first -> class logits (B,Q,labels), mask logits (B,Q,R,C)."""
        channels = {name: x.permute(0, 3, 1, 2) for name, x in maps.items()}
        pixels = self.pyramid(channels)  # (B, F, R, C)
        coarsest = self.project([*channels.values()][-1]).permute(0, 2, 3, 1)  # (B, r, c, W)
        positions = sine_positions(self.spec.hidden_size, every_place(coarsest)).to(coarsest)
        image = coarsest.flatten(1, 2)  # (B, S, W)
        learned = self.queries.weight.expand(image.shape[0], -1, -1)  # (B, Q, W)
        y = torch.zeros_like(learned)
        for layer in self.query_layers:
            y = layer(y, learned, None, image, positions)
        queries = self.query_norm(y)
        masks = mask_scores(perceptron(self.mask, queries), pixels)
        return self.classes(queries), masks

    def outputs_of_maps(self, x: Tensor, maps: dict[str, Tensor]) -> dict[str, Tensor]:
        """The graph's outputs: class_queries_logits (B,Q,labels) and masks_queries_logits (B,Q,R,C)."""
        classes, masks = self(maps)
        return {names.CLASS_QUERIES_LOGITS: classes, names.MASKS_QUERIES_LOGITS: masks}


def every_place(grid: Tensor) -> Tensor:
    """grid (B,R,C,W) -> true (B,R,C): every place is of the image."""
    real = torch.ones_like(grid[:, :, :, 0], dtype=torch.bool)
    return real


def mask_scores(vectors: Tensor, pixels: Tensor) -> Tensor:
    """vectors (B,Q,F), pixels (B,F,R,C) -> the products (B,Q,R,C) of each vector with each place."""
    masks = (vectors @ pixels.flatten(2)).unflatten(2, pixels.shape[2:])
    return masks


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> MasksHead:
    """The head of a model's spec."""
    return MasksHead(spec)
