"""Stacks of learned queries whose boxes begin as places of an image."""

import torch
from torch import Tensor, nn

from txexport.spec import MixedStackSpec
from txmodels.grounded_stack import LevelPositions, place_points
from txmodels.heads._transform import dense_layers
from txmodels.heads.boxes import perceptron, scaled
from txmodels.inputs import signal_embedding
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.proposal_stack import EDGE, SIDE, ProposalLayer
from txmodels.query_stack import resized_mask
from txmodels.stack import Given


class LikeliestBoxes(nn.Module):
    """The boxes of the places that score highest (Chen et al. 2024, 3.1)."""

    def __init__(self, spec: MixedStackSpec):
        super().__init__()
        self.queries, width = spec.queries, spec.hidden_size
        self.vector = Linear(width, width)
        self.norm = Norm(spec.block.norm)
        self.scores = Linear(width, spec.labels)
        self.box = dense_layers(width, spec.box_layers, 4)

    def forward(self, image: Tensor, anchors: Tensor, inside: Tensor) -> Tensor:
        """image (B,S,W), anchors (B,S,4), inside (B,S) -> boxes (B,Q,4)."""
        vectors = self.norm(self.vector(image.masked_fill(~inside[:, :, None], 0)))  # (B, S, W)
        scores = self.scores(vectors).amax(2).masked_fill(~inside, -torch.inf)  # (B, S)
        best = scores.topk(self.queries).indices[..., None]  # (B, Q, 1)
        chosen = torch.gather(vectors, 1, best.expand(-1, -1, vectors.shape[2]))  # (B, Q, W)
        first = torch.gather(anchors, 1, best.expand(-1, -1, 4))  # (B, Q, 4)
        boxes = scaled(perceptron(self.box, chosen), first)
        return boxes


class LearnedChanges(nn.Module):
    """Learned queries, and the change of the box that each has (Zhang et al. 2023, 3.3)."""

    def __init__(self, spec: MixedStackSpec):
        super().__init__()
        self.vectors = nn.Parameter(torch.zeros(spec.queries, spec.hidden_size))
        self.changes = nn.Parameter(torch.zeros(spec.queries, 4))

    def forward(self, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """boxes (B,Q,4) -> queries (B,Q,W), changed boxes (B,Q,4)."""
        queries = self.vectors.expand(boxes.shape[0], -1, -1)  # (B, Q, W)
        changed = scaled(self.changes, boxes)
        return queries, changed


class MixedEncoder(nn.Module):
    """An image's maps, and learned queries whose boxes begin as their likeliest places."""

    def __init__(self, spec: MixedStackSpec):
        super().__init__()
        self.spec, count = spec, spec.objects.num_layers
        self.embedding = signal_embedding(spec)
        self.proposals = LikeliestBoxes(spec)
        self.queries = LearnedChanges(spec)
        self.query_position = LevelPositions(spec.hidden_size)
        self.query_layers = nn.ModuleList(
            ProposalLayer(spec.block, spec.objects, spec.attention) for _ in range(count)
        )
        self.query_norm = Norm(spec.block.norm)

    def forward(
        self, pixel_values: Tensor, pixel_mask: Tensor | None = None, outputs: Given | None = None
    ) -> tuple[Tensor, Tensor]:
        """pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries (B,Q,W), boxes (B,Q,4).

        If a head reads maps, `outputs` is filled with the boxes and with the first level (B,R,C,W).
        """
        assert pixel_mask is not None
        maps = self.embedding(pixel_values)  # (B, R, C, W)
        real = [resized_mask(pixel_mask, x) for x in maps]  # (B, R, C)
        sizes = {str(level): torch.tensor(x.shape[1:3], device="cpu") for level, x in enumerate(maps)}
        image = torch.cat([x.flatten(1, 2) for x in maps], dim=1)  # (B, S, W)
        points, shares = zip(*(place_points(one, image) for one in real), strict=True)
        share = torch.cat(shares, dim=1)  # (B, L, 2)
        real_places = torch.cat([one.flatten(1) for one in real], dim=1)  # (B, S)
        anchors, inside = zip(
            *(
                place_sides(point, one.flatten(1), torch.tensor(SIDE * 2**level))
                for level, (point, one) in enumerate(zip(points, real, strict=True))
            ),
            strict=True,
        )
        boxes = self.proposals(image, torch.cat(anchors, dim=1), torch.cat(inside, dim=1))
        y, boxes = self.queries(boxes)
        near = boxes[:, :, None] * torch.cat([share, share], dim=2)[:, None]  # (B, Q, L, 4)
        positions = self.query_position(near)
        for layer in self.query_layers:
            y = layer(y, positions, near, image, sizes, real=real_places)
        if outputs is not None and outputs.maps is not None:
            outputs.maps |= {"boxes": boxes, "level": maps[0]}
        y = self.query_norm(y)
        return y, boxes


def place_sides(points: Tensor, real: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """points (B,S,2), which are of the image (B,S), a side () -> boxes (B,S,4), and which have one (B,S)."""
    boxes = torch.cat([points, side.to(points).expand_as(points)], dim=2)  # (B, S, 4)
    inside = ((boxes > EDGE) & (boxes < 1 - EDGE)).all(2) & real  # (B, S)
    boxes = boxes.masked_fill(~inside[:, :, None], 0)
    return boxes, inside
