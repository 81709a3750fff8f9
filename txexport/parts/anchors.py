"""Parameters and operations of queries that are anchor boxes."""

from itertools import pairwise

from txexport.parts.conditional import network, projections
from txexport.parts.query_layers import box, normed, repeated, separate
from txexport.spec import AnchorStackSpec
from txexport.spec.shapes import Shapes, linear, norm, under


def parameters(stack: AnchorStackSpec) -> Shapes:
    """Everything behind the embedding: layers over places, boxes and their sines, layers over queries."""
    width, scale = stack.hidden_size, norm(stack.block.norm)
    cell = {"attention": separate(width), "feed_forward": network(stack, stack.cells)}
    shapes = under("layers", repeated(stack.cells.num_layers, normed(cell, scale)))
    if stack.cells_norm:
        shapes |= under("layers_norm", scale)
    shapes["queries.boxes"] = (stack.boxes, 4)
    if stack.patterns:
        shapes["queries.patterns"] = (stack.patterns, width)
    for name, sizes in (
        ("cell_scale", (width, width, width)),
        ("query_position", (2 * width, width, width)),
        ("query_scale", (width, width, width)),
        ("query_sides", (width, width, 2)),
    ):
        for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
            shapes |= under(f"{name}.layers.{layer}", linear(inputs, outputs, True))
    for layer in range(stack.objects.num_layers):
        placed = ["q_position"] if stack.placed or not layer else []
        parts = {
            "attention": projections(width, "q_position", "k_position"),
            "cross_attention": projections(width, "q_sine", "k_position", *placed),
            "feed_forward": network(stack, stack.objects),
        }
        shapes |= under(f"query_layers.{layer}", normed(parts, scale))
    shapes |= under("boxes.layers", box(width, stack.box_layers, 4))
    return shapes | under("query_norm", scale)


def operations(stack: AnchorStackSpec) -> dict[str, int]:
    """The operations of each component behind the embedding for a row, by name."""
    width, queries, cells = stack.hidden_size, stack.queries, stack.embedding.length
    layers, placed = stack.objects.num_layers, stack.objects.num_layers if stack.placed else 1
    mutual = 4 * cells * width**2 + 2 * cells**2 * width + 2 * cells * width * stack.cells.intermediate_size
    objects = 6 * queries * width**2 + 2 * queries**2 * width
    objects += 3 * (queries + cells) * width**2 + 3 * queries * cells * width
    objects += 2 * queries * width * stack.objects.intermediate_size
    products = {
        "cell_scale": stack.cells.num_layers * 2 * cells * width**2,
        "layers": stack.cells.num_layers * mutual,
        "query_position": layers * 3 * queries * width**2,
        "query_scale": (layers - 1) * 2 * queries * width**2,
        "query_sides": layers * queries * width * (width + 2),
        "query_layers": layers * objects + placed * queries * width**2,
        "boxes": (layers - 1) * queries * width * ((stack.box_layers - 1) * width + 4),
    }
    return {name: 2 * count for name, count in products.items()}
