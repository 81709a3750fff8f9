"""Stacks of queries that predict a distribution for each edge of a box."""

from functools import cache, partial

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.contracts import names
from txexport.spec import DistributionStackSpec, FeedForwardSpec, NormSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.aggregation_pyramid import aggregation_pyramid
from txgraphs.deformable_attention import deformable_attention
from txgraphs.edges import edge_boxes
from txgraphs.feedforward import feed_forward
from txgraphs.heads.boxes import perceptron
from txgraphs.inputs.hgnet_levels import hgnet_levels_embedding
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.proposal_stack import box_change, box_positions, places_as_queries
from txgraphs.separate_attention import separate_attention

FURTHEST, LARGEST = 10.0, 65504.0  # of positions; of what the last norm of a layer reads


@component("y")
def gated_residual(spec: NormSpec, g: Body, x: ir.Value, read: ir.Value) -> ir.Value:
    """A residual connection with gates that are computed from both inputs, and a norm.

    x and read (B,Q,W) -> y (B,Q,W).
    """
    op = g.op
    gates = op.Sigmoid(linear(True, g / "gates", op.Concat(x, read, axis=2)))
    sizes = op.Constant(value_ints=[spec.size, spec.size])
    first, second = op.Split(gates, sizes, axis=2, name=["first", "second"])
    y = norm(spec, g / "norm", op.Add(op.Mul(first, x), op.Mul(second, read)))
    return y


@component("y")
def distribution_layer(
    spec: DistributionStackSpec,
    g: Body,
    x: ir.Value,
    positions: ir.Value,
    references: ir.Value,
    image: ir.Value,
    sizes: dict[str, ir.Value],
) -> ir.Value:
    """Self-attention, deformable attention joined by gates, and a feed-forward network.

    x and positions (B,Q,W), boxes (B,Q,4), image (B,S,W), rows and columns of levels -> y (B,Q,W).
    """
    op, block, layers, width = g.op, spec.object_block, spec.objects, spec.hidden_size
    query, heads = op.Add(x, positions), (layers.num_heads, width)
    mixed = separate_attention(*heads, g / "attention", query, query, x)
    x = norm(block.norm, g / "attention_norm", op.Add(x, mixed))
    query, place = op.Add(x, positions), g / "cross_attention"
    read = deformable_attention(spec.attention, place, query, references, image, sizes)
    x = gated_residual(spec.gate_norm, g / "gate", x, read)
    network = FeedForwardSpec(width, layers.intermediate_size, block.activation)
    changed = op.Add(x, feed_forward(network, g / "feed_forward", x))
    y = norm(block.norm, g / "feed_forward_norm", g.call(clipped(LARGEST), changed))
    return y


@component("scores")
def edge_scores(
    spec: DistributionStackSpec, g: Body, x: ir.Value, before: ir.Value | None, scores: ir.Value | None
) -> ir.Value:
    """Scores of the distributions of edges, which each layer refines (Peng et al. 2024, 4.1).

    Queries (B,Q,W), those before the layer and their scores (B,Q,4*(bins+1)), if any -> scores.
    """
    changed = perceptron(g, "layers", spec.box_layers, x if before is None else g.op.Add(x, before))
    return changed if scores is None else g.op.Add(changed, scores)


@cache
def clipped(most: float) -> OnnxFunction:
    """See txmodels.distribution_stack."""
    least = -most

    @script(domain, default_opset=op)
    def clipped(x):
        """Numbers between -most and most."""
        low = op.CastLike(op.Constant(value_float=least), x)
        y = op.Clip(x, low, op.CastLike(op.Constant(value_float=most), x))
        return y

    return clipped


def distribution_encoder(
    spec: DistributionStackSpec, graph: Graph, inputs: dict[str, ir.Value], stack: str = "encoder"
) -> tuple[ir.Value, ir.Value]:
    """An image's maps, and queries that begin as their likeliest places; the twin of DistributionEncoder.

    pixel_values (B,channels,height,width) -> queries (B,Q,W), boxes and scores (B,Q,4+4*(bins+1)).
    """
    maps = hgnet_levels_embedding(spec.embedding, graph / f"{stack}.embedding", inputs[names.PIXEL_VALUES])
    pyramid = partial(aggregation_pyramid, spec.pyramid, graph / f"{stack}.pyramid")
    y, references, image, sizes = places_as_queries(spec, graph, stack, maps, pyramid, spec.projected)
    before, first, scores = None, references, None
    for number in range(spec.objects.num_layers):
        positions = box_positions(graph / f"{stack}.query_position", references)
        positions = graph.call(clipped(FURTHEST), positions)
        place = graph / f"{stack}.query_layers.{number}"
        y = distribution_layer(spec, place, y, positions, references, image, sizes)
        if not number:
            first = box_change(spec.box_layers, graph / f"{stack}.first_box", y, references)
        scores = edge_scores(spec, graph / f"{stack}.edges.{number}", y, before, scores)
        before, references = y, edge_boxes(spec.edges, graph / f"{stack}.boxes", first, scores)
    return y, graph.op.Concat(references, scores, axis=2)
