"""Labels and masks of an image's segments (Cheng et al. 2021, 3.2 and 3.4)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import FeedForwardSpec, GroupNormSpec, HeadKind, HeadSpec, MasksSpec, PixelPyramidSpec
from txexport.spec.masks import MASK_LAYERS
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


class Masks:
    """Scores of labels and a mask for each query, from the maps of all stages."""

    kind = HeadKind.MASKS
    component = "masks"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """class_queries_logits (B,Q,labels) and masks_queries_logits (B,Q,height,width)."""
        assert head.masks is not None
        queries = hidden[0], head.masks.queries
        return (
            floats(names.CLASS_QUERIES_LOGITS, *queries, head.labels),
            floats(names.MASKS_QUERIES_LOGITS, *queries, names.LOGITS_HEIGHT, names.LOGITS_WIDTH),
        )

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The pyramid, the projection of the coarsest map, the layers of queries, and dense layers."""
        assert head.masks is not None
        masks, shapes = head.masks, under("pyramid", _pyramid(head.masks.pyramid))
        width = masks.hidden_size
        if masks.projected:
            shapes |= {"project.weight": (width, masks.pyramid.sizes[-1], 1, 1), "project.bias": (width,)}
        shapes["queries.weight"] = (masks.queries, width)
        network = feed_forward(FeedForwardSpec(width, masks.layers.intermediate_size, masks.activation))
        separate: Shapes = {}
        for name in ("q", "k", "v", "o"):
            separate |= under(name, linear(width, width, True))
        for layer in range(masks.layers.num_layers):
            parts = {"attention": separate, "cross_attention": separate, "feed_forward": network}
            for part, inner in parts.items():
                shapes |= under(f"query_layers.{layer}.{part}", inner)
                shapes |= under(f"query_layers.{layer}.{part}_norm", norm(masks.norm))
        shapes |= under("query_norm", norm(masks.norm)) | under("classes", linear(width, head.labels, True))
        for layer in range(MASK_LAYERS):
            size = masks.pyramid.size if layer == MASK_LAYERS - 1 else width
            shapes |= under(f"mask.{layer}", linear(width, size, True))
        return shapes

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of queries and of labels."""
        assert head.masks is not None
        return f"masks, {head.masks.queries:,} queries, {head.labels:,} labels"


def operations(masks: MasksSpec, labels: int, grids: list[tuple[int, int]]) -> int:
    """The operations for maps of `grids`, rows and columns, less those of matrices with one vector.

    The matrices of layers and of dense layers are counted once elsewhere.
    """
    width, count, layers, pyramid = masks.hidden_size, masks.queries, masks.layers, masks.pyramid
    counts = [rows * columns for rows, columns in grids]
    fused = pyramid.norm.size
    products = 9 * counts[-1] * pyramid.sizes[-1] * fused
    for area, size in zip(counts[:-1], pyramid.sizes, strict=False):
        products += area * fused * (size + 9 * fused)
    products += 9 * counts[0] * fused * pyramid.size
    products += counts[-1] * pyramid.sizes[-1] * width if masks.projected else 0
    once = 8 * width**2 + 2 * width * layers.intermediate_size  # of a layer's matrices
    layer = count * once + 2 * (counts[-1] - count) * width**2 + 2 * count * (count + counts[-1]) * width
    products += layers.num_layers * (layer - once)
    dense = (MASK_LAYERS - 1) * width**2 + width * (pyramid.size + labels)
    products -= count * width  # the table of queries, which is no factor
    return 2 * (products + (count - 1) * dense + count * counts[0] * pyramid.size)


def _pyramid(pyramid: PixelPyramidSpec) -> Shapes:
    """The convolutions of the coarsest map, of finer ones and of sums, each with a norm, and the last one."""
    *finer, coarsest = pyramid.sizes
    width = pyramid.norm.size
    shapes = under("stem", normed_convolution(coarsest, 3, pyramid.norm))
    for number, size in enumerate(reversed(finer)):
        shapes |= under(f"sides.{number}", normed_convolution(size, 1, pyramid.norm))
    for number in range(len(finer)):
        shapes |= under(f"convolutions.{number}", normed_convolution(width, 3, pyramid.norm))
    return shapes | {"project.weight": (pyramid.size, width, 3, 3), "project.bias": (pyramid.size,)}


def normed_convolution(inputs: int, kernel: int, norm: GroupNormSpec, bias: bool = False) -> Shapes:
    """A convolution, with a bias or without, and its norm."""
    convolution: Shapes = {"convolution.weight": (norm.size, inputs, kernel, kernel)}
    convolution |= {"convolution.bias": (norm.size,)} if bias else {}
    return convolution | {"norm.weight": (norm.size,), "norm.bias": (norm.size,)}


HEAD = Masks()
