"""Parameters and operations of queries that predict a distribution for each edge of a box."""

import math

from txexport.parts.inputs.hgnet_levels import depthwise_norm
from txexport.parts.inputs.resnet import convolution_norm
from txexport.parts.proposals import begun, begun_products, moved, mutual, places
from txexport.parts.query_layers import box, deformable, normed, repeated, sampled, separate
from txexport.spec import AggregationPyramidSpec, DistributionStackSpec, FeedForwardSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


def parameters(stack: DistributionStackSpec) -> Shapes:
    """Everything behind the embedding: layers over places, pyramid, proposals, layers over queries, edges."""
    width, scale, pyramid = stack.hidden_size, norm(stack.object_block.norm), stack.pyramid
    shapes = begun(stack, _pyramid(pyramid, stack.embedding.levels), stack.projected)
    network = FeedForwardSpec(width, stack.objects.intermediate_size, stack.object_block.activation)
    layer = normed({"attention": separate(width), "feed_forward": feed_forward(network)}, scale)
    layer |= under("cross_attention", deformable(stack.attention))
    layer |= under("gate.gates", linear(2 * width, 2 * width, True))
    layer |= under("gate.norm", norm(stack.gate_norm))
    shapes |= under("query_layers", repeated(stack.objects.num_layers, layer))
    shapes |= under("first_box.layers", box(width, stack.box_layers))
    scores = under("layers", box(width, stack.box_layers, 4 * (stack.edges.bins + 1)))
    shapes |= under("edges", repeated(stack.objects.num_layers, scores))
    return shapes | {"boxes.scale": (1,), "boxes.reach": (1,)}


def _pyramid(spec: AggregationPyramidSpec, levels: int) -> Shapes:
    """The projections and joints of the maps, down and up."""
    size, inner = spec.size, spec.inner
    joint = under("both", convolution_norm(2 * size, 2 * size, 1))
    for number, inputs in enumerate((size, inner)):
        stage = under("through", convolution_norm(inputs, inner, 1))
        stage |= under("beside", convolution_norm(inputs, inner, 1))
        pair = under("wide", convolution_norm(inner, inner, 3))
        pair |= under("narrow", convolution_norm(inner, inner, 1))
        stage |= under("pairs", repeated(spec.blocks, pair))
        joint |= under(f"stages.{number}", stage)
        joint |= under(f"wide.{number}", convolution_norm(inner, inner, 3))
    joint |= under("project", convolution_norm(2 * size + 2 * inner, size, 1))
    halving = under("point", convolution_norm(size, size, 1)) | under("each", depthwise_norm(size, 3))
    parts = {
        "laterals": convolution_norm(size, size, 1),
        "downward": joint,
        "strides": halving,
        "upward": joint,
    }
    shapes: Shapes = {}
    for name, part in parts.items():
        shapes |= under(name, repeated(levels - 1, part))
    return shapes


def operations(stack: DistributionStackSpec) -> dict[str, int]:
    """The operations of each component behind the embedding for a row, by name."""
    width, queries, layers = stack.hidden_size, stack.queries, stack.objects.num_layers
    crossed = sampled(stack.attention, queries, sum(places(stack))) + 4 * queries * width**2
    scores = 4 * (stack.edges.bins + 1)
    products = begun_products(stack, _pyramid_products(stack.pyramid, places(stack)), stack.projected)
    products |= {
        "query_layers": layers * (mutual(queries, width, stack.objects) + crossed),
        "first_box": moved(stack),
        "edges": layers * queries * width * ((stack.box_layers - 1) * width + scores),
        "boxes": layers * queries * scores,
    }
    return {name: 2 * count for name, count in products.items() if count}


def _pyramid_products(spec: AggregationPyramidSpec, grids: list[int]) -> int:
    """The products of the pyramid over maps of as many places, the finest first."""
    shapes = _pyramid(spec, 2)

    def weights(part: str) -> int:
        """The products for a place of a part between two levels."""
        convolutions = [name for name in shapes if name.endswith("convolution.weight")]
        return sum(math.prod(shapes[name]) for name in convolutions if name.startswith(part))

    down = sum(grids[1:]) * weights("laterals") + sum(grids[:-1]) * weights("downward")
    up = sum(grids[:-1]) * weights("strides.0.point") + sum(grids[1:]) * weights("strides.0.each")
    return down + up + sum(grids[1:]) * weights("upward")
