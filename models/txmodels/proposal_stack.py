"""Stacks of queries that begin as places of an image."""

import torch
from torch import Tensor, nn

from txexport.spec import (
    AnchorStackSpec,
    DeformableAttentionSpec,
    DeformableStackSpec,
    DistributionStackSpec,
    FeedForwardSpec,
    ProposalStackSpec,
    QueryBlockSpec,
    QueryLayersSpec,
)
from txmodels.deformable_attention import DeformableAttention
from txmodels.feedforward import FeedForward
from txmodels.fusion_pyramid import FusionPyramid
from txmodels.heads._transform import dense_layers
from txmodels.heads.boxes import perceptron, refined
from txmodels.inputs.resnet import ConvolutionNorm
from txmodels.inputs.resnet_levels import ResnetLevelsEmbedding
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.query_stack import QueryLayer
from txmodels.separate_attention import SeparateAttention
from txmodels.stack import Given

SIDE, EDGE = (
    0.05,
    0.01,
)  # of the first boxes of the finest map, as a share of the image's; of boxes that are none


class Proposals(nn.Module):
    """The places of maps that score highest, and their boxes (Zhao et al. 2024, 4.3)."""

    def __init__(self, spec: ProposalStackSpec | DistributionStackSpec):
        super().__init__()
        self.queries, width = spec.queries, spec.hidden_size
        self.vector = Linear(width, width)
        self.norm = Norm(spec.object_block.norm)
        self.scores = Linear(width, spec.labels)
        self.box = dense_layers(width, spec.box_layers, 4)

    def forward(self, image: Tensor, anchors: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        """image (B,S,W), anchors (S,4), inside (S,1) -> queries (B,Q,W), references (B,Q,4)."""
        vectors = self.norm(self.vector(image * inside.to(image)))  # (B, S, W)
        scores = self.scores(vectors).amax(2)  # (B, S)
        best = scores.topk(self.queries).indices[..., None]  # (B, Q, 1)
        queries = torch.gather(vectors, 1, best.expand(-1, -1, vectors.shape[2]))  # (B, Q, W)
        references = torch.sigmoid(perceptron(self.box, queries) + anchors[best[..., 0]])
        return queries, references


class ProposalLayer(nn.Module):
    """Attention to one another and to places near a box, and a network (Zhu et al. 2021, 4.1)."""

    def __init__(self, spec: QueryBlockSpec, layers: QueryLayersSpec, attention: DeformableAttentionSpec):
        super().__init__()
        width = spec.hidden_size
        self.attention = SeparateAttention(width, layers.num_heads, width)
        self.attention_norm = Norm(spec.norm)
        self.cross_attention = DeformableAttention(attention)
        self.cross_attention_norm = Norm(spec.norm)
        network = FeedForwardSpec(width, layers.intermediate_size, spec.activation)
        self.feed_forward = FeedForward(network)
        self.feed_forward_norm = Norm(spec.norm)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        references: Tensor,
        image: Tensor,
        sizes: dict[str, Tensor],
        **masks: Tensor,
    ) -> Tensor:
        """x and positions (B,Q,W), boxes (B,Q,4), image (B,S,W), rows and columns of levels -> y (B,Q,W).

        References and masks are those of DeformableAttention.
        """
        query = x + positions
        x = self.attention_norm(x + self.attention(query, query, x))
        read = self.cross_attention(x + positions, references, image, sizes, **masks)
        x = self.cross_attention_norm(x + read)
        y: Tensor = self.feed_forward_norm(x + self.feed_forward(x))
        return y


class BoxPositions(nn.Module):
    """Boxes as positions of queries (Zhao et al. 2024, 4.3)."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.ModuleList([Linear(4, 2 * width), Linear(2 * width, width)])

    def forward(self, references: Tensor) -> Tensor:
        """references (B,Q,4) -> positions (B,Q,W)."""
        positions = perceptron(self.layers, references)
        return positions


Boxed = ProposalStackSpec | DistributionStackSpec | DeformableStackSpec | AnchorStackSpec


class BoxChange(nn.Module):
    """Boxes that a layer has changed (Zhu et al. 2021, A.4)."""

    def __init__(self, spec: Boxed):
        super().__init__()
        self.layers = dense_layers(spec.hidden_size, spec.box_layers, 4)

    def forward(self, x: Tensor, references: Tensor) -> Tensor:
        """x (B,Q,W), references (B,Q,4) -> boxes (B,Q,4)."""
        boxes = refined(perceptron(self.layers, x), references)
        return boxes


class PlacesAsQueries(nn.Module):
    """An image's maps, and the likeliest of their places as queries: what every encoder of these begins with.

    Maps are projected to the width of queries if `projected`.
    """

    def __init__(
        self,
        spec: ProposalStackSpec | DistributionStackSpec,
        embedding: nn.Module,
        pyramid: nn.Module,
        projected: bool,
    ):
        super().__init__()
        self.spec, inner, width = spec, spec.embedding.hidden_size, spec.hidden_size
        levels = spec.embedding.levels if projected else 0
        self.embedding = embedding
        self.layers = nn.ModuleList(
            QueryLayer(spec.cell_block, spec.cells, False) for _ in range(spec.cells.num_layers)
        )
        self.pyramid = pyramid
        self.levels = nn.ModuleList(ConvolutionNorm(inner, width, 1, 1, spec.eps) for _ in range(levels))
        self.proposals = Proposals(spec)
        self.query_position = BoxPositions(width)

    def begun(self, pixel_values: Tensor) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """pixel_values -> queries (B,Q,W), boxes (B,Q,4), image (B,S,W), rows and columns of levels."""
        *finer, coarse = self.embedding(pixel_values)
        x, positions = flat_map(coarse), map_positions(self.spec, coarse)  # (B, S, W), (1, S, W)
        for layer in self.layers:
            x = layer(x, positions, None)
        maps = [*finer, unflat_map(x, coarse)]
        maps = self.pyramid({str(level): x for level, x in enumerate(maps)})
        if self.levels:
            maps = [part(x) for part, x in zip(self.levels, maps, strict=True)]
        image = torch.cat([flat_map(x) for x in maps], dim=1)  # (B, S, W)
        pairs = [first_boxes(x, torch.tensor(SIDE * 2**level)) for level, x in enumerate(maps)]
        anchors, inside = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        sizes = {str(level): torch.tensor(x.shape[2:], device="cpu") for level, x in enumerate(maps)}
        return *self.proposals(image, anchors, inside), image, sizes


class ProposalEncoder(PlacesAsQueries):
    """An image's maps, and queries that begin as their likeliest places."""

    def __init__(self, spec: ProposalStackSpec):
        pyramid, count = FusionPyramid(spec.pyramid, spec.embedding.levels), spec.objects.num_layers
        super().__init__(spec, ResnetLevelsEmbedding(spec.embedding), pyramid, projected=True)
        self.query_layers = nn.ModuleList(
            ProposalLayer(spec.object_block, spec.objects, spec.attention) for _ in range(count)
        )
        self.boxes = nn.ModuleList(BoxChange(spec) for _ in range(count - 1))

    def forward(
        self, pixel_values: Tensor, attention_mask: None = None, outputs: Given | None = None
    ) -> tuple[Tensor, Tensor]:
        """pixel_values (B,channels,height,width) -> queries (B,Q,W), references (B,Q,4)."""
        y, references, image, sizes = self.begun(pixel_values)
        for number, layer in enumerate(self.query_layers):
            positions = self.query_position(references)
            y = layer(y, positions, references, image, sizes)
            if number < len(self.boxes):
                references = self.boxes[number](y, references)
        return y, references


def flat_map(x: Tensor) -> Tensor:
    """x (B,W,R,C) -> vectors (B,S,W) of its places."""
    vectors = x.flatten(2).transpose(1, 2)
    return vectors


def unflat_map(vectors: Tensor, like: Tensor) -> Tensor:
    """vectors (B,S,W), a map (B,W,R,C) -> x of the map's shape."""
    x = vectors.transpose(1, 2).reshape(like.shape)
    return x


def map_positions(spec: ProposalStackSpec | DistributionStackSpec, x: Tensor) -> Tensor:
    """A map x (B,W,R,C) -> sines and cosines of rows and of columns (1,S,W) (Zhao et al. 2024, 4.2)."""
    width, rows, columns = x.shape[1:]
    periods = torch.tensor(_periods(width, spec.temperature), dtype=x.dtype, device=x.device)
    parts = []
    for count, other in ((rows, 1), (columns, 0)):
        turns = torch.arange(count, device=x.device).to(x)[:, None] / periods  # (R, W / 4)
        both = torch.cat([turns.sin(), turns.cos()], dim=1).unsqueeze(other)
        parts.append(both.expand(rows, columns, -1))
    positions = torch.cat(parts, dim=2).flatten(0, 1)[None]
    return positions


def _periods(width: int, temperature: float) -> list[float]:
    return [temperature ** (4 * step / width) for step in range(width // 4)]


def first_boxes(x: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """A map x (B,W,R,C), the side of a box () -> logits of boxes (S,4), and which are inside (S,1)."""
    rows, columns = x.shape[2:]
    down, across = ((torch.arange(n, device=x.device) + 0.5) / n for n in (rows, columns))
    pairs = across[None].expand(rows, -1), down[:, None].expand(-1, columns)
    centres = torch.stack(pairs, dim=2).flatten(0, 1)  # (S, 2)
    boxes = torch.cat([centres, side.to(centres).expand_as(centres)], dim=1)  # (S, 4)
    inside = ((boxes > EDGE) & (boxes < 1 - EDGE)).all(1, keepdim=True)
    logits = torch.where(inside, torch.log(boxes / (1 - boxes)), LARGE)
    return logits, inside


LARGE = 3.0e38  # a logit of 1
