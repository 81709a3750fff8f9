"""Stacks of queries that predict a distribution for each edge of a box."""

import torch
from torch import Tensor, nn

from txexport.spec import DistributionStackSpec, FeedForwardSpec, NormSpec
from txmodels.aggregation_pyramid import AggregationPyramid
from txmodels.deformable_attention import DeformableAttention
from txmodels.edges import EdgeBoxes
from txmodels.feedforward import FeedForward
from txmodels.heads._transform import dense_layers
from txmodels.heads.boxes import perceptron
from txmodels.inputs.hgnet_levels import HgnetLevelsEmbedding
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.proposal_stack import BoxChange, PlacesAsQueries
from txmodels.separate_attention import SeparateAttention
from txmodels.stack import Given

FURTHEST, LARGEST = 10.0, 65504.0  # of positions; of what the last norm of a layer reads


class GatedResidual(nn.Module):
    """A residual connection with gates that are computed from both inputs, and a norm."""

    def __init__(self, spec: NormSpec):
        super().__init__()
        self.gates = Linear(2 * spec.size, 2 * spec.size)
        self.norm = Norm(spec)

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        """x and read (B,Q,W) -> y (B,Q,W)."""
        first, second = torch.sigmoid(self.gates(torch.cat([x, read], dim=2))).chunk(2, dim=2)
        y: Tensor = self.norm(first * x + second * read)
        return y


class DistributionLayer(nn.Module):
    """Self-attention, deformable attention joined by gates, and a feed-forward network."""

    def __init__(self, spec: DistributionStackSpec):
        super().__init__()
        block, layers, width = spec.object_block, spec.objects, spec.hidden_size
        self.attention = SeparateAttention(width, layers.num_heads, width)
        self.attention_norm = Norm(block.norm)
        self.cross_attention = DeformableAttention(spec.attention)
        self.gate = GatedResidual(spec.gate_norm)
        self.feed_forward = FeedForward(FeedForwardSpec(width, layers.intermediate_size, block.activation))
        self.feed_forward_norm = Norm(block.norm)

    def forward(
        self, x: Tensor, positions: Tensor, references: Tensor, image: Tensor, sizes: dict[str, Tensor]
    ) -> Tensor:
        """x and positions (B,Q,W), boxes (B,Q,4), image (B,S,W), rows and columns of levels -> y (B,Q,W)."""
        query = x + positions
        x = self.attention_norm(x + self.attention(query, query, x))
        x = self.gate(x, self.cross_attention(x + positions, references, image, sizes))
        changed = x + self.feed_forward(x)
        y: Tensor = self.feed_forward_norm(clipped(LARGEST, changed))
        return y


class EdgeScores(nn.Module):
    """Scores of the distributions of edges, which each layer refines (Peng et al. 2024, 4.1)."""

    def __init__(self, spec: DistributionStackSpec):
        super().__init__()
        self.layers = dense_layers(spec.hidden_size, spec.box_layers, 4 * (spec.edges.bins + 1))

    def forward(self, x: Tensor, before: Tensor | None, scores: Tensor | None) -> Tensor:
        """Queries (B,Q,W), those before the layer and their scores (B,Q,4*(bins+1)), if any -> scores."""
        changed = perceptron(self.layers, x if before is None else x + before)
        return changed if scores is None else changed + scores


class DistributionEncoder(PlacesAsQueries):
    """An image's maps, and queries that begin as their likeliest places, with distributions of edges."""

    def __init__(self, spec: DistributionStackSpec):
        pyramid, count = AggregationPyramid(spec.pyramid, spec.embedding.levels), spec.objects.num_layers
        super().__init__(spec, HgnetLevelsEmbedding(spec.embedding), pyramid, spec.projected)
        self.query_layers = nn.ModuleList(DistributionLayer(spec) for _ in range(count))
        self.first_box = BoxChange(spec)
        self.edges = nn.ModuleList(EdgeScores(spec) for _ in range(count))
        self.boxes = EdgeBoxes(spec.edges)

    def forward(
        self, pixel_values: Tensor, attention_mask: None = None, outputs: Given | None = None
    ) -> tuple[Tensor, Tensor]:
        """pixel_values (B,channels,height,width) -> queries (B,Q,W), boxes and scores (B,Q,4+4*(bins+1))."""
        y, references, image, sizes = self.begun(pixel_values)
        before, first, scores = None, references, None
        for number, layer in enumerate(self.query_layers):
            positions = clipped(FURTHEST, self.query_position(references))
            y = layer(y, positions, references, image, sizes)
            first = first if number else self.first_box(y, references)
            scores = self.edges[number](y, before, scores)
            before, references = y, self.boxes(first, scores)
        assert scores is not None
        return y, torch.cat([references, scores], dim=2)


def clipped(most: float, x: Tensor) -> Tensor:
    """Numbers between -most and most."""
    y = x.clamp(-most, most)
    return y
