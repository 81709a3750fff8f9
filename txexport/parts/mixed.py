"""Parameters and operations of learned queries whose boxes begin as places of an image."""

from txexport.parts.query_layers import box, deformable, normed, repeated, sampled, separate
from txexport.spec import FeedForwardSpec, MixedStackSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


def parameters(stack: MixedStackSpec) -> Shapes:
    """Everything behind the embedding: boxes of places, queries, layers over them."""
    width, scale = stack.hidden_size, norm(stack.block.norm)
    shapes = under("proposals.vector", linear(width, width, True)) | under("proposals.norm", scale)
    shapes |= under("proposals.scores", linear(width, stack.labels, True))
    shapes |= under("proposals.box", box(width, stack.box_layers, 4))
    shapes |= {"queries.vectors": (stack.queries, width), "queries.changes": (stack.queries, 4)}
    for layer, inputs in enumerate((2 * width, width)):
        shapes |= under(f"query_position.layers.{layer}", linear(inputs, width, True))
    network = FeedForwardSpec(width, stack.objects.intermediate_size, stack.block.activation)
    parts = {
        "attention": separate(width),
        "cross_attention": deformable(stack.attention),
        "feed_forward": feed_forward(network),
    }
    shapes |= under("query_layers", repeated(stack.objects.num_layers, normed(parts, scale)))
    return shapes | under("query_norm", scale)


def operations(stack: MixedStackSpec) -> dict[str, int]:
    """The operations of each component behind the embedding for a row, by name."""
    width, queries, area = stack.hidden_size, stack.queries, stack.embedding.length
    move = queries * width * ((stack.box_layers - 1) * width + 4)
    objects = 4 * queries * width**2 + 2 * queries**2 * width
    objects += sampled(stack.attention, queries, area)
    objects += 2 * queries * width * stack.objects.intermediate_size
    products = {
        "proposals": area * width * (width + stack.labels) + move,
        "query_position": 3 * queries * width**2,
        "query_layers": stack.objects.num_layers * objects,
    }
    return {name: 2 * count for name, count in products.items()}
