"""Parameters and operations of queries that begin as places of an image."""

from txexport.parts.inputs.resnet import convolution_norm
from txexport.parts.query_layers import box, deformable, normed, repeated, sampled, separate
from txexport.spec import (
    DistributionStackSpec,
    FeedForwardSpec,
    FusionPyramidSpec,
    ProposalStackSpec,
    QueryLayersSpec,
)
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


def parameters(stack: ProposalStackSpec) -> Shapes:
    """Everything behind the embedding: layers over places, pyramid, proposals, layers over queries."""
    width = stack.hidden_size
    shapes = begun(stack, _pyramid(stack.pyramid, stack.embedding.levels), projected=True)
    network = FeedForwardSpec(width, stack.objects.intermediate_size, stack.object_block.activation)
    parts = {
        "attention": separate(width),
        "cross_attention": deformable(stack.attention),
        "feed_forward": feed_forward(network),
    }
    layer = normed(parts, norm(stack.object_block.norm))
    shapes |= under("query_layers", repeated(stack.objects.num_layers, layer))
    change = under("layers", box(width, stack.box_layers))
    return shapes | under("boxes", repeated(stack.objects.num_layers - 1, change))


def begun(stack: ProposalStackSpec | DistributionStackSpec, pyramid: Shapes, projected: bool) -> Shapes:
    """The layers over places, the pyramid, projections of its maps, and what makes queries of places."""
    inner, width, levels = stack.embedding.hidden_size, stack.hidden_size, stack.embedding.levels
    network = FeedForwardSpec(inner, stack.cells.intermediate_size, stack.cell_block.activation)
    parts = {"attention": separate(inner), "feed_forward": feed_forward(network)}
    cells = normed(parts, norm(stack.cell_block.norm))
    shapes = under("layers", repeated(stack.cells.num_layers, cells)) | under("pyramid", pyramid)
    shapes |= under("levels", repeated(levels if projected else 0, convolution_norm(inner, width, 1)))
    proposals = under("vector", linear(width, width, True)) | under("norm", norm(stack.object_block.norm))
    proposals |= under("scores", linear(width, stack.labels, True))
    proposals |= under("box", box(width, stack.box_layers))
    positions = under("layers.0", linear(4, 2 * width, True))
    positions |= under("layers.1", linear(2 * width, width, True))
    return shapes | under("proposals", proposals) | under("query_position", positions)


def _pyramid(spec: FusionPyramidSpec, levels: int) -> Shapes:
    """The projections and joints of the maps, down and up."""
    fusion = under("through", convolution_norm(2 * spec.size, spec.inner, 1))
    fusion |= under("beside", convolution_norm(2 * spec.size, spec.inner, 1))
    for pair in range(spec.blocks):
        fusion |= under(f"pairs.{pair}.wide", convolution_norm(spec.inner, spec.inner, 3))
        fusion |= under(f"pairs.{pair}.narrow", convolution_norm(spec.inner, spec.inner, 1))
    if spec.inner != spec.size:
        fusion |= under("project", convolution_norm(spec.inner, spec.size, 1))
    shapes: Shapes = {}
    parts = {
        "laterals": convolution_norm(spec.size, spec.size, 1),
        "downward": fusion,
        "strides": convolution_norm(spec.size, spec.size, 3),
        "upward": fusion,
    }
    for name, part in parts.items():
        for number in range(levels - 1):
            shapes |= under(f"{name}.{number}", part)
    return shapes


def operations(stack: ProposalStackSpec) -> dict[str, int]:
    """The operations of each component behind the embedding for a row, by name."""
    width, queries, layers = stack.hidden_size, stack.queries, stack.objects.num_layers
    crossed = sampled(stack.attention, queries, sum(places(stack)))
    products = begun_products(stack, _pyramid_products(stack.pyramid, places(stack)), projected=True)
    products["query_layers"] = layers * (mutual(queries, width, stack.objects) + crossed)
    products["boxes"] = (layers - 1) * moved(stack)
    return {name: 2 * count for name, count in products.items()}


def begun_products(
    stack: ProposalStackSpec | DistributionStackSpec, pyramid: int, projected: bool
) -> dict[str, int]:
    """Products of what `begun` has parameters of, with those of the pyramid."""
    inner, width, grids = stack.embedding.hidden_size, stack.hidden_size, places(stack)
    position = 2 * width * (4 + width)
    return {
        "layers": stack.cells.num_layers * mutual(grids[-1], inner, stack.cells),
        "pyramid": pyramid,
        "levels": sum(grids) * inner * width if projected else 0,
        "proposals": sum(grids) * width * (width + stack.labels) + moved(stack),
        "query_position": stack.objects.num_layers * stack.queries * position,
    }


def places(stack: ProposalStackSpec | DistributionStackSpec) -> list[int]:
    """The number of places of each map, the finest first."""
    return [rows * columns for rows, columns in stack.embedding.grids]


def moved(stack: ProposalStackSpec | DistributionStackSpec) -> int:
    """Products of a change of all boxes."""
    width = stack.hidden_size
    return stack.queries * width * ((stack.box_layers - 1) * width + 4)


def mutual(count: int, width: int, layers: QueryLayersSpec) -> int:
    """Products of attention of `count` vectors to one another, and of a network."""
    attention = 4 * count * width**2 + 2 * count**2 * width
    return attention + 2 * count * width * layers.intermediate_size


def _pyramid_products(spec: FusionPyramidSpec, grids: list[int]) -> int:
    """The products of the pyramid over maps of as many places, the finest first."""
    fusion = 2 * 2 * spec.size * spec.inner + spec.blocks * 10 * spec.inner**2
    fusion += spec.inner * spec.size if spec.inner != spec.size else 0
    down = sum(after * spec.size**2 for after in grids[1:]) + sum(grids[:-1]) * fusion
    up = sum(after * 9 * spec.size**2 for after in grids[1:]) + sum(grids[1:]) * fusion
    return down + up
