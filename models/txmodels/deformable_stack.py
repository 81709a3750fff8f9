"""Stacks of queries that read points of an image's maps."""

import torch
from torch import Tensor, nn

from txexport.spec import DeformableStackSpec, NormSpec
from txmodels.deformable_pyramid import DeformableLayer
from txmodels.grounded_stack import SIDE, MapLevel, place_boxes, place_points
from txmodels.heads._transform import dense_layers
from txmodels.heads.boxes import perceptron
from txmodels.inputs import signal_embedding
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.phrases import number_sines
from txmodels.proposal_stack import BoxChange, ProposalLayer
from txmodels.query_stack import resized_mask, sine_positions
from txmodels.stack import Given

START = 0.5  # of rows and columns, which are counted at the centres of places


class LearnedQueries(nn.Module):
    """Learned queries, and the points near which they read (Zhu et al. 2021, 4.1)."""

    def __init__(self, spec: DeformableStackSpec):
        super().__init__()
        self.vectors = nn.Embedding(spec.queries, 2 * spec.hidden_size)
        self.point = Linear(spec.hidden_size, 2)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """image (B,S,W) -> queries and their positions (B,Q,W), boxes (B,Q,4), whose sides are halves."""
        both = self.vectors.weight.expand(image.shape[0], -1, -1)  # (B, Q, 2 * W)
        positions, queries = both.chunk(2, dim=2)  # (B, Q, W)
        points = torch.sigmoid(self.point(positions))  # (B, Q, 2)
        references = torch.cat([points, torch.full_like(points, 0.5)], dim=2)  # (B, Q, 4)
        return queries, positions, references


class ProposedQueries(nn.Module):
    """The places that score highest as queries, and their boxes (Zhu et al. 2021, A.4)."""

    def __init__(self, spec: DeformableStackSpec):
        super().__init__()
        self.queries, self.width = spec.queries, spec.hidden_size
        self.vector = Linear(self.width, self.width)
        self.norm = Norm(spec.block.norm)
        self.score = Linear(self.width, 1)
        self.box = dense_layers(self.width, spec.box_layers, 4)
        self.position = Linear(2 * self.width, 2 * self.width)
        self.position_norm = Norm(NormSpec(2 * self.width, spec.block.norm.eps))

    def forward(self, image: Tensor, anchors: Tensor, inside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """image (B,S,W), anchors (B,S,4), inside (B,S) -> queries and their positions (B,Q,W), boxes (B,Q,4).

        The score is that of the first label.
        """
        vectors = self.norm(self.vector(image.masked_fill(~inside[:, :, None], 0)))  # (B, S, W)
        scores = self.score(vectors)[:, :, 0]  # (B, S)
        best = scores.topk(self.queries).indices[..., None]  # (B, Q, 1)
        chosen = torch.gather(vectors, 1, best.expand(-1, -1, self.width))  # (B, Q, W)
        first = torch.gather(anchors, 1, best.expand(-1, -1, 4))  # (B, Q, 4)
        references = torch.sigmoid(perceptron(self.box, chosen) + first)
        sines = number_sines(self.width // 2, references)  # (B, Q, 2 * W)
        positions, queries = self.position_norm(self.position(sines)).chunk(2, dim=2)  # (B, Q, W)
        return queries, positions, references


class DeformableEncoder(nn.Module):
    """An image's maps through layers over their places, and queries that read points of them."""

    def __init__(self, spec: DeformableStackSpec):
        super().__init__()
        self.spec, width, read = spec, spec.hidden_size, spec.embedding.read
        self.embedding = signal_embedding(spec)
        sizes = [*read, *read[-1:], *[width] * spec.levels][: spec.levels]
        self.maps = nn.ModuleList(
            MapLevel(size, spec.map_norm, level >= len(read)) for level, size in enumerate(sizes)
        )
        self.level_embed = nn.Embedding(spec.levels, width)
        self.layers = nn.ModuleList(
            DeformableLayer(spec.block, spec.cells, spec.cell_attention) for _ in range(spec.cells.num_layers)
        )
        if spec.proposed:
            self.proposals = ProposedQueries(spec)
        else:
            self.queries = LearnedQueries(spec)
        count = spec.objects.num_layers
        self.query_layers = nn.ModuleList(
            ProposalLayer(spec.block, spec.objects, spec.object_attention(spec.reads_boxes(layer)))
            for layer in range(count)
        )
        self.boxes = nn.ModuleList(BoxChange(spec) for _ in range(count - 1 if spec.refined else 0))

    def forward(
        self, pixel_values: Tensor, pixel_mask: Tensor | None = None, outputs: Given | None = None
    ) -> tuple[Tensor, Tensor]:
        """pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries (B,Q,W), boxes (B,Q,4)."""
        assert pixel_mask is not None
        spec, maps = self.spec, self.levels(pixel_values)
        real = [resized_mask(pixel_mask, x) for x in maps]  # (B, R, C)
        positions = torch.cat(
            [
                sine_positions(spec.hidden_size, one, start=START).to(level) + level
                for one, level in zip(real, self.level_embed.weight, strict=True)
            ],
            dim=1,
        )  # (B, S, W)
        sizes = {str(level): torch.tensor(x.shape[1:3], device="cpu") for level, x in enumerate(maps)}
        image = torch.cat([x.flatten(1, 2) for x in maps], dim=1)  # (B, S, W)
        points, shares = zip(*(place_points(one, image) for one in real), strict=True)
        share = torch.cat(shares, dim=1)  # (B, L, 2)
        references = torch.cat(points, dim=1)[:, :, None] * share[:, None]  # (B, S, L, 2)
        real_places = torch.cat([one.flatten(1) for one in real], dim=1)  # (B, S)
        for layer in self.layers:
            image = layer(image, positions, references, sizes, real=real_places)
        if spec.proposed:
            anchors, inside = zip(
                *(
                    place_boxes(point, one.flatten(1), torch.tensor(SIDE * 2**level))
                    for level, (point, one) in enumerate(zip(points, real, strict=True))
                ),
                strict=True,
            )
            y, learned, boxes = self.proposals(image, torch.cat(anchors, dim=1), torch.cat(inside, dim=1))
        else:
            y, learned, boxes = self.queries(image)
        four = torch.cat([share, share], dim=2)  # (B, L, 4)
        for number, layer in enumerate(self.query_layers):
            near = boxes[:, :, None] * four[:, None]  # (B, Q, L, 4)
            near = near if spec.reads_boxes(number) else near[..., :2]  # (B, Q, L, 2)
            y = layer(y, learned, near, image, sizes, real=real_places)
            if number < len(self.boxes):
                boxes = self.boxes[number](y, boxes)
        return y, boxes

    def levels(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B,channels,height,width) -> maps (B,R,C,W), the finest first."""
        read = self.embedding(pixel_values)
        maps: list[Tensor] = []
        for level, part in enumerate(self.maps):
            source = read[min(level, len(read) - 1)] if level <= len(read) else maps[-1]
            maps.append(part(source))
        return maps
