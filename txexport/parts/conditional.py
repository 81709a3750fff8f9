"""Parameters and operations of learned queries that read an image near points."""

from txexport.parts.query_layers import normed, repeated, separate
from txexport.spec import AnchorStackSpec, ConditionalStackSpec, FeedForwardSpec, QueryLayersSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


def parameters(stack: ConditionalStackSpec) -> Shapes:
    """Everything behind the embedding: layers over places, queries and their points, layers over queries."""
    width, scale = stack.hidden_size, norm(stack.block.norm)
    cells = {"attention": separate(width), "feed_forward": network(stack, stack.cells)}
    shapes = under("layers", repeated(stack.cells.num_layers, normed(cells, scale)))
    shapes |= {"queries.weight": (stack.queries, width)}
    shapes |= under("query_position.layers.0", linear(width, width, True))
    shapes |= under("query_position.layers.1", linear(width, 2, True))
    for layer in range(2):
        shapes |= under(f"query_scale.layers.{layer}", linear(width, width, True))
    for layer in range(stack.objects.num_layers):
        parts = {
            "attention": projections(width, "q_position", "k_position"),
            "cross_attention": projections(
                width, "q_sine", "k_position", *(["q_position"] if not layer else [])
            ),
            "feed_forward": network(stack, stack.objects),
        }
        shapes |= under(f"query_layers.{layer}", normed(parts, scale))
    return shapes | under("query_norm", scale)


def projections(width: int, *names: str) -> Shapes:
    """Projections of contents, and those of positions."""
    shapes = separate(width)
    for name in names:
        shapes |= under(name, linear(width, width, True))
    return shapes


def network(stack: ConditionalStackSpec | AnchorStackSpec, layers: QueryLayersSpec) -> Shapes:
    """The feed-forward network of a layer."""
    return feed_forward(FeedForwardSpec(stack.hidden_size, layers.intermediate_size, stack.block.activation))


def operations(stack: ConditionalStackSpec) -> dict[str, int]:
    """The operations of each component behind the embedding for a row, by name."""
    width, queries, cells = stack.hidden_size, stack.queries, stack.embedding.length
    layers = stack.objects.num_layers
    mutual = 4 * cells * width**2 + 2 * cells**2 * width + 2 * cells * width * stack.cells.intermediate_size
    objects = 6 * queries * width**2 + 2 * queries**2 * width
    objects += 3 * (queries + cells) * width**2 + 3 * queries * cells * width
    objects += 2 * queries * width * stack.objects.intermediate_size
    products = {
        "layers": stack.cells.num_layers * mutual,
        "query_position": queries * width * (width + 2),
        "query_scale": (layers - 1) * 2 * queries * width**2,
        "query_layers": layers * objects + queries * width**2,
    }
    return {name: 2 * count for name, count in products.items()}
