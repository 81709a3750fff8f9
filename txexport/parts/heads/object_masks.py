"""Labels, boxes and masks of an image's objects, the masks from attention (Carion et al. 2020, 4.4)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec, ObjectMasksSpec
from txexport.spec.object_masks import BOX_LAYERS
from txexport.spec.shapes import Shapes, linear, under


class ObjectMasks:
    """Scores of labels, a box and a mask for each query."""

    kind = HeadKind.OBJECT_MASKS
    component = "object_masks"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """logits (B,Q,labels), pred_boxes (B,Q,4) as those of a detector, and pred_masks (B,Q,R,C)."""
        assert head.object_masks is not None
        queries = hidden[0], head.object_masks.queries
        return (
            floats(names.LOGITS, *queries, head.labels),
            floats(names.PRED_BOXES, *queries, 4),
            floats(names.PRED_MASKS, *queries, names.LOGITS_HEIGHT, names.LOGITS_WIDTH),
        )

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The dense layers, the projections of queries and keys, and the convolutions."""
        assert head.object_masks is not None
        masks = head.object_masks
        first, *others = masks.norms
        shapes = under("classes", linear(hidden_size, head.labels, True))
        for layer in range(BOX_LAYERS):
            size = 4 if layer == BOX_LAYERS - 1 else hidden_size
            shapes |= under(f"box.{layer}", linear(hidden_size, size, True))
        for name in ("q", "k"):
            shapes |= under(f"attention.{name}", linear(hidden_size, hidden_size, True))
        shapes |= under("join", _convolution(masks.joined, masks.joined, 3))
        shapes |= under("join_norm", _norm(first.size))
        pairs = [(masks.joined, masks.channels[0]), *_pairs(masks)]
        for number, ((inputs, _), norm) in enumerate(zip(pairs, others, strict=True)):
            owner = f"convolutions.{number - 1}" if number else "reduce"
            shapes |= under(f"{owner}.convolution", _convolution(inputs, norm.size, 3))
            shapes |= under(f"{owner}.norm", _norm(norm.size))
        for number, (size, (channels, _)) in enumerate(
            zip(reversed(masks.sizes), _pairs(masks), strict=True)
        ):
            shapes |= under(f"sides.{number}", _convolution(size, channels, 1))
        return shapes | under("project", _convolution(masks.channels[-1], 1, 3))

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of queries and of labels."""
        assert head.object_masks is not None
        return f"boxes and masks, {head.object_masks.queries:,} queries, {head.labels:,} labels"


def operations(masks: ObjectMasksSpec, labels: int, grids: list[tuple[int, int]]) -> int:
    """The operations for maps of `grids`, rows and columns, less those of matrices with one vector.

    Grids are those of all maps, the finest first; the last is that of the map that layers read.
    """
    count, width = masks.queries, masks.hidden_size
    *finer, coarsest = [rows * columns for rows, columns in grids]
    dense = width * (labels + 4 + (BOX_LAYERS - 1) * width)
    products = (count - 1) * dense + (count + coarsest - 2) * width**2 + count * coarsest * width
    products += 9 * coarsest * masks.joined * (width + count * masks.num_heads)
    products += 9 * count * coarsest * masks.joined * masks.channels[0]
    for area, size, (channels, reduced) in zip(
        reversed(finer), reversed(masks.sizes), _pairs(masks), strict=True
    ):
        products += area * channels * (size + 9 * count * reduced)
    return 2 * (products + 9 * count * finer[0] * masks.channels[-1])


def _pairs(masks: ObjectMasksSpec) -> list[tuple[int, int]]:
    """Channels before and behind the convolution at each finer map, the coarsest first."""
    return list(zip(masks.channels[:-1], masks.channels[1:], strict=True))


def _convolution(inputs: int, outputs: int, kernel: int) -> Shapes:
    return {"weight": (outputs, inputs, kernel, kernel), "bias": (outputs,)}


def _norm(size: int) -> Shapes:
    return {"weight": (size,), "bias": (size,)}


HEAD = ObjectMasks()
