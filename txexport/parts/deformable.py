"""Parameters and operations of queries that read points of an image's maps."""

import math

from txexport.parts.grounded import map_levels
from txexport.parts.query_layers import box, deformable, normed, repeated, sampled, separate
from txexport.spec import DeformableStackSpec, FeedForwardSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


def parameters(stack: DeformableStackSpec) -> Shapes:
    """Everything behind the embedding: maps, layers over places, queries, layers over queries, boxes."""
    width, scale = stack.hidden_size, norm(stack.block.norm)
    shapes = under("maps", map_levels(stack.embedding.read, stack.levels, width))
    shapes["level_embed.weight"] = (stack.levels, width)
    parts = {
        "attention": deformable(stack.cell_attention),
        "feed_forward": feed_forward(_network(stack, stack.cells.intermediate_size)),
    }
    shapes |= under("layers", repeated(stack.cells.num_layers, normed(parts, scale)))
    if stack.proposed:
        proposals = under("vector", linear(width, width, True)) | under("norm", scale)
        proposals |= under("score", linear(width, 1, True)) | under("box", box(width, stack.box_layers))
        proposals |= under("position", linear(2 * width, 2 * width, True))
        proposals |= {"position_norm.weight": (2 * width,), "position_norm.bias": (2 * width,)}
        shapes |= under("proposals", proposals)
    else:
        shapes |= {"queries.vectors.weight": (stack.queries, 2 * width)}
        shapes |= under("queries.point", linear(width, 2, True))
    parts = {
        "attention": separate(width),
        "cross_attention": deformable(stack.object_attention(boxes=True)),
        "feed_forward": feed_forward(_network(stack, stack.objects.intermediate_size)),
    }
    shapes |= under("query_layers", repeated(stack.objects.num_layers, normed(parts, scale)))
    for change in range(stack.objects.num_layers - 1 if stack.refined else 0):
        shapes |= under(f"boxes.{change}.layers", box(width, stack.box_layers))
    return shapes


def _network(stack: DeformableStackSpec, size: int) -> FeedForwardSpec:
    """A position-wise network of `size` numbers."""
    return FeedForwardSpec(stack.hidden_size, size, stack.block.activation)


def operations(stack: DeformableStackSpec) -> dict[str, int]:
    """The operations of each component behind the embedding for a row, by name."""
    width, queries, area = stack.hidden_size, stack.queries, stack.area
    shapes = map_levels(stack.embedding.read, stack.levels, width)
    weights = [math.prod(shapes[f"{level}.convolution.weight"]) for level in range(stack.levels)]
    maps = sum(rows * columns * weight for (rows, columns), weight in zip(stack.grids, weights, strict=True))
    cells = sampled(stack.cell_attention, area, area)
    cells += 2 * area * width * stack.cells.intermediate_size
    move = queries * width * ((stack.box_layers - 1) * width + 4)
    objects = 4 * queries * width**2 + 2 * queries**2 * width
    objects += sampled(stack.object_attention(boxes=True), queries, area)
    objects += 2 * queries * width * stack.objects.intermediate_size
    layers = stack.objects.num_layers
    products = {
        "maps": maps,
        "layers": stack.cells.num_layers * cells,
        "query_layers": layers * objects,
        "boxes": (layers - 1 if stack.refined else 0) * move,
    }
    if stack.proposed:
        products["proposals"] = area * width * (width + 1) + move + 4 * queries * width**2
    else:
        products["queries"] = 2 * queries * width
    return {name: 2 * count for name, count in products.items() if count}
