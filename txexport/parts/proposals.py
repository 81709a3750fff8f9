"""Parameters and operations of queries that begin as places of an image."""

from txexport.parts.inputs.resnet import convolution_norm
from txexport.spec import DistributionStackSpec, FeedForwardSpec, FusionPyramidSpec, ProposalStackSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


def parameters(stack: ProposalStackSpec) -> Shapes:
    """Everything behind the embedding: layers over places, pyramid, proposals, layers over queries."""
    inner, width, shapes = stack.embedding.hidden_size, stack.hidden_size, Shapes()
    network = FeedForwardSpec(inner, stack.cells.intermediate_size, stack.cell_block.activation)
    for layer in range(stack.cells.num_layers):
        parts = {"attention": separate(inner), "feed_forward": feed_forward(network)}
        shapes |= under(f"layers.{layer}", _normed(parts, norm(stack.cell_block.norm)))
    shapes |= under("pyramid", _pyramid(stack.pyramid, stack.embedding.levels))
    for level in range(stack.embedding.levels):
        shapes |= under(f"levels.{level}", convolution_norm(inner, width, 1))
    shapes |= proposed(stack)
    network = FeedForwardSpec(width, stack.objects.intermediate_size, stack.object_block.activation)
    for layer in range(stack.objects.num_layers):
        parts = {
            "attention": separate(width),
            "cross_attention": _deformable(stack),
            "feed_forward": feed_forward(network),
        }
        shapes |= under(f"query_layers.{layer}", _normed(parts, norm(stack.object_block.norm)))
    for layer in range(stack.objects.num_layers - 1):
        shapes |= under(f"boxes.{layer}.layers", box(width, stack.box_layers, 4))
    return shapes


def proposed(stack: ProposalStackSpec | DistributionStackSpec) -> Shapes:
    """The scores and boxes of places, and the positions of boxes."""
    width, shapes = stack.hidden_size, Shapes()
    shapes |= under("vector", linear(width, width, True)) | under("norm", norm(stack.object_block.norm))
    shapes |= under("scores", linear(width, stack.labels, True))
    shapes |= under("box", box(width, stack.box_layers, 4))
    positions = under("layers.0", linear(4, 2 * width, True))
    positions |= under("layers.1", linear(2 * width, width, True))
    return under("proposals", shapes) | under("query_position", positions)


def separate(width: int) -> Shapes:
    """Query, key, value and output projections."""
    shapes: Shapes = {}
    for name in ("q", "k", "v", "o"):
        shapes |= under(name, linear(width, width, True))
    return shapes


def _deformable(stack: ProposalStackSpec) -> Shapes:
    width, spec = stack.hidden_size, stack.attention
    count = spec.sampled
    sizes = {"offsets": 2 * count, "shares": count, "v": width, "o": width}
    shapes: Shapes = {}
    for name, size in sizes.items():
        shapes |= under(name, linear(width, size, True))
    return shapes


def _normed(parts: dict[str, Shapes], scale: Shapes) -> Shapes:
    """Sublayers, each with a norm."""
    shapes: Shapes = {}
    for name, inner in parts.items():
        shapes |= under(name, inner) | under(f"{name}_norm", scale)
    return shapes


def box(width: int, layers: int, outputs: int) -> Shapes:
    """The dense layers of a box, of 4 numbers or more."""
    shapes: Shapes = {}
    for layer in range(layers):
        shapes |= under(f"{layer}", linear(width, outputs if layer == layers - 1 else width, True))
    return shapes


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
    inner, width, queries = stack.embedding.hidden_size, stack.hidden_size, stack.queries
    grids = [rows * columns for rows, columns in stack.embedding.grids]
    coarse, cells_of_levels = grids[-1], sum(grids)
    cells = 4 * coarse * inner**2 + 2 * coarse**2 * inner + 2 * coarse * inner * stack.cells.intermediate_size
    spec = stack.attention
    count = spec.sampled
    crossed = queries * width * (3 * count + width) + cells_of_levels * width**2
    read = queries * count * width // spec.num_heads
    mutual = 4 * queries * width**2 + 2 * queries**2 * width
    network = 2 * queries * width * stack.objects.intermediate_size
    box = queries * width * ((stack.box_layers - 1) * width + 4)
    positions = queries * 2 * width * (4 + width)
    layers = stack.objects.num_layers
    return {
        "layers": 2 * stack.cells.num_layers * cells,
        "pyramid": 2 * _pyramid_products(stack.pyramid, grids),
        "levels": 2 * cells_of_levels * inner * width,
        "proposals": 2 * (cells_of_levels * width * (width + stack.labels) + box),
        "query_position": 2 * layers * positions,
        "query_layers": 2 * layers * (mutual + crossed + read + network),
        "boxes": 2 * (layers - 1) * box,
    }


def _pyramid_products(spec: FusionPyramidSpec, grids: list[int]) -> int:
    """The products of the pyramid over maps of as many places, the finest first."""
    fusion = 2 * 2 * spec.size * spec.inner + spec.blocks * 10 * spec.inner**2
    fusion += spec.inner * spec.size if spec.inner != spec.size else 0
    down = sum(after * spec.size**2 for after in grids[1:]) + sum(grids[:-1]) * fusion
    up = sum(after * 9 * spec.size**2 for after in grids[1:]) + sum(grids[1:]) * fusion
    return down + up
