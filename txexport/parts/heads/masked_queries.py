"""Labels and masks of an image's segments, by masked attention (Cheng et al. 2022, 3.2)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.heads.masks import normed_convolution
from txexport.parts.part import Shape
from txexport.parts.query_layers import deformable, normed, repeated, separate
from txexport.spec import (
    DeformablePyramidSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    MaskedQueriesSpec,
)
from txexport.spec.masks import MASK_LAYERS
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


class MaskedQueries:
    """Scores of labels and a mask for each query, from the maps of all stages."""

    kind = HeadKind.MASKED_QUERIES
    component = "masked_queries"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """class_queries_logits (B,Q,labels) and masks_queries_logits (B,Q,height,width)."""
        assert head.masked_queries is not None
        queries = hidden[0], head.masked_queries.queries
        return (
            floats(names.CLASS_QUERIES_LOGITS, *queries, head.labels),
            floats(names.MASKS_QUERIES_LOGITS, *queries, names.LOGITS_HEIGHT, names.LOGITS_WIDTH),
        )

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The pyramid, the learned vectors of maps and queries, the layers, and dense layers."""
        assert head.masked_queries is not None
        masks, shapes = head.masked_queries, under("pyramid", _pyramid(head.masked_queries.pyramid))
        width, inner = masks.hidden_size, masks.pyramid.hidden_size
        for level in range(masks.pyramid.levels if masks.projected else 0):
            shapes |= {f"projects.{level}.weight": (width, inner, 1, 1), f"projects.{level}.bias": (width,)}
        shapes["levels.weight"] = (masks.pyramid.levels, width)
        shapes |= {"queries.weight": (masks.queries, width), "first.weight": (masks.queries, width)}
        network = FeedForwardSpec(width, masks.layers.intermediate_size, masks.block.activation)
        parts = {
            "attention": separate(width),
            "cross_attention": separate(width),
            "feed_forward": feed_forward(network),
        }
        scale = norm(masks.block.norm)
        layers = repeated(masks.layers.num_layers, normed(parts, scale))
        shapes |= under("query_layers", layers)
        shapes |= under("query_norm", scale) | under("classes", linear(width, head.labels, True))
        for layer in range(MASK_LAYERS):
            size = masks.pyramid.size if layer == MASK_LAYERS - 1 else width
            shapes |= under(f"mask.{layer}", linear(width, size, True))
        return shapes

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of queries and of labels."""
        assert head.masked_queries is not None
        return f"masks, {head.masked_queries.queries:,} queries, {head.labels:,} labels"


def operations(masks: MaskedQueriesSpec, labels: int, grids: list[tuple[int, int]]) -> int:
    """The operations for maps of `grids`, rows and columns, less those of matrices with one vector.

    The matrices of layers and of dense layers are counted once elsewhere, and so are tables of vectors.
    """
    width, inner, count, pyramid = masks.hidden_size, masks.pyramid.hidden_size, masks.queries, masks.pyramid
    finest, *coarser = [rows * columns for rows, columns in grids]
    cells = sum(coarser)
    products = sum(area * size * inner for area, size in zip(coarser, pyramid.sizes[1:], strict=True))
    spec = pyramid.attention
    points = spec.sampled
    once = inner * (3 * points + 2 * inner + 2 * pyramid.layers.intermediate_size)
    read = cells * points * inner // spec.num_heads
    products += pyramid.layers.num_layers * ((cells - 1) * once + read)
    products += finest * inner * (pyramid.sizes[0] + 9 * inner + pyramid.size)
    products += cells * inner * width if masks.projected else 0
    once = 8 * width**2 + 2 * width * masks.layers.intermediate_size
    for layer in range(masks.layers.num_layers):
        area = coarser[::-1][layer % pyramid.levels]
        products += (count - 1) * once + 2 * (area - count) * width**2 + 2 * count * (count + area) * width
    dense = (MASK_LAYERS - 1) * width**2 + width * pyramid.size
    times = masks.layers.num_layers + 1
    products += (times * count - 1) * dense + (count - 1) * width * labels
    products += times * count * finest * pyramid.size
    tables = (2 * count + pyramid.levels) * width + pyramid.levels * inner
    return 2 * (products - tables)


def _pyramid(pyramid: DeformablePyramidSpec) -> Shapes:
    """The projections of coarser maps, their layers, and the convolutions of the finest."""
    finest, *coarser = pyramid.sizes
    width, shapes = pyramid.hidden_size, Shapes()
    for number, size in enumerate(reversed(coarser)):
        shapes |= under(f"projects.{number}", normed_convolution(size, 1, pyramid.norm, True))
    shapes["levels.weight"] = (pyramid.levels, width)
    network = feed_forward(FeedForwardSpec(width, pyramid.layers.intermediate_size, pyramid.block.activation))
    parts = {"attention": deformable(pyramid.attention), "feed_forward": network}
    shapes |= under("layers", repeated(pyramid.layers.num_layers, normed(parts, norm(pyramid.block.norm))))
    shapes |= under("side", normed_convolution(finest, 1, pyramid.norm))
    shapes |= under("convolution", normed_convolution(width, 3, pyramid.norm))
    return shapes | {"project.weight": (pyramid.size, width, 1, 1), "project.bias": (pyramid.size,)}


HEAD = MaskedQueries()
