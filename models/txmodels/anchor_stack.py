"""Stacks of queries that are anchor boxes."""

import torch
from torch import Tensor, nn

from txexport.spec import AnchorStackSpec
from txmodels.conditional_stack import ConditionalLayer, ScaledSines
from txmodels.heads.boxes import perceptron
from txmodels.inputs import signal_embedding
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.phrases import number_sines
from txmodels.proposal_stack import BoxChange
from txmodels.query_stack import QueryLayer, resized_mask, sine_positions
from txmodels.stack import Given


class BoxSines(nn.Module):
    """The sinusoidal embedding of a box's centre, and a box's position (Liu et al. 2022, 4.3)."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList([Linear(2 * width, width), Linear(width, width)])

    def forward(self, references: Tensor) -> tuple[Tensor, Tensor]:
        """references (B,Q,4) -> sines (B,Q,W) of the centre, row first, and positions (B,Q,W)."""
        column, row, sides = references.split([1, 1, 2], dim=2)
        both = number_sines(self.width // 2, torch.cat([row, column, sides], dim=2))  # (B, Q, 2 * W)
        return both[:, :, : self.width], perceptron(self.layers, both)


class ModulatedSines(nn.Module):
    """The embedding of a centre times the predicted sides divided by the box's (Liu et al. 2022, 4.4)."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.ModuleList([Linear(width, width), Linear(width, 2)])

    def forward(self, x: Tensor, sines: Tensor, references: Tensor) -> Tensor:
        """x and sines (B,Q,W), references (B,Q,4) -> sines (B,Q,W)."""
        shares = torch.sigmoid(perceptron(self.layers, x)) / references[:, :, 2:]  # (B, Q, 2)
        across, down = shares.chunk(2, dim=2)
        row, column = sines.chunk(2, dim=2)
        y = torch.cat([row * down, column * across], dim=2)
        return y


class AnchorQueries(nn.Module):
    """Learned boxes, and learned vectors of patterns or zeros (Liu et al. 2022, 4.1)."""

    def __init__(self, spec: AnchorStackSpec):
        super().__init__()
        self.spec = spec
        self.boxes = nn.Parameter(torch.empty(spec.boxes, 4))
        if spec.patterns:
            self.patterns = nn.Parameter(torch.empty(spec.patterns, spec.hidden_size))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """image (B,S,W) -> queries (B,Q,W), references (B,Q,4)."""
        rows, spec = image.shape[0], self.spec
        references = torch.sigmoid(self.boxes).repeat(max(spec.patterns, 1), 1).expand(rows, -1, -1)
        if spec.patterns:
            queries = self.patterns.repeat_interleave(spec.boxes, dim=0).expand(rows, -1, -1)
        else:
            queries = torch.zeros_like(image[:, :1]).expand(-1, spec.boxes, -1)
        return queries, references


class AnchorEncoder(nn.Module):
    """Layers over an image's map, and anchor boxes that read it."""

    def __init__(self, spec: AnchorStackSpec):
        super().__init__()
        self.spec, width, count = spec, spec.hidden_size, spec.objects.num_layers
        self.embedding = signal_embedding(spec)
        self.cell_scale = ScaledSines(width)
        self.layers = nn.ModuleList(
            QueryLayer(spec.block, spec.cells, False) for _ in range(spec.cells.num_layers)
        )
        self.layers_norm = Norm(spec.block.norm) if spec.cells_norm else nn.Identity()
        self.queries = AnchorQueries(spec)
        self.query_position = BoxSines(width)
        self.query_scale = ScaledSines(width)
        self.query_sides = ModulatedSines(width)
        self.query_layers = nn.ModuleList(
            ConditionalLayer(spec.block, spec.objects, spec.placed or not layer) for layer in range(count)
        )
        self.boxes = BoxChange(spec)
        self.query_norm = Norm(spec.block.norm)

    def forward(
        self, pixel_values: Tensor, pixel_mask: Tensor | None = None, outputs: Given | None = None
    ) -> tuple[Tensor, Tensor]:
        """pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries (B,Q,W), boxes (B,Q,4)."""
        assert pixel_mask is not None
        grid = self.embedding(pixel_values)  # (B, R, C, W)
        real = resized_mask(pixel_mask, grid)  # (B, R, C)
        positions = sine_positions(self.spec.hidden_size, real, self.spec.temperature).to(grid)
        x, seen = grid.flatten(1, 2), real.flatten(1)[:, None, None]  # (B, S, W), (B, 1, 1, S)
        for layer in self.layers:
            x = layer(x, self.cell_scale(x, positions), seen.expand(-1, 1, x.shape[1], -1))
        image = self.layers_norm(x)
        y, references = self.queries(image)
        mask, last = seen.expand(-1, 1, y.shape[1], -1), len(self.query_layers) - 1
        for number, layer in enumerate(self.query_layers):
            sines, placed = self.query_position(references)
            scaled = self.query_scale(y, sines) if number else sines
            y = layer(y, placed, self.query_sides(y, scaled, references), image, positions, mask)
            references = references if number == last else self.boxes(y, references)
        return self.query_norm(y), references
