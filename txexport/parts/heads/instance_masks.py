"""Labels, boxes and masks of an image's objects, the masks of a map's places (Robinson et al. 2025, 3)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.parts.query_layers import box
from txexport.spec import HeadKind, HeadSpec, InstanceMasksSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


class InstanceMasks:
    """Scores of labels, a box and a mask for each query."""

    kind = HeadKind.INSTANCE_MASKS
    component = "instance_masks"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """logits (B,Q,labels), pred_boxes (B,Q,4) as those of a detector, and pred_masks (B,Q,R,C)."""
        assert head.instance_masks is not None
        queries = hidden[0], head.instance_masks.boxes.queries
        return (
            floats(names.LOGITS, *queries, head.labels),
            floats(names.PRED_BOXES, *queries, 4),
            floats(names.PRED_MASKS, *queries, names.LOGITS_HEIGHT, names.LOGITS_WIDTH),
        )

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The dense layers of scores and boxes, the blocks over the map, and the network of queries."""
        assert head.instance_masks is not None
        masks, width = head.instance_masks, hidden_size
        shapes = under("scores", box(width, masks.boxes.score_layers, head.labels))
        shapes |= under("box", box(width, masks.boxes.box_layers, 4))
        for number in range(masks.blocks):
            block: Shapes = {"each.weight": (width, 1, 3, 3), "each.bias": (width,)}
            block |= under("norm", norm(masks.map_norm)) | under("point", linear(width, width, True))
            shapes |= under(f"blocks.{number}", block)
        shapes |= {"places.weight": (width, width, 1, 1), "places.bias": (width,)}
        shapes |= under("norm", norm(masks.norm)) | under("network", feed_forward(masks.network))
        return shapes | under("query", linear(width, width, True)) | {"bias": (1,)}

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of queries and of labels."""
        assert head.instance_masks is not None
        return f"boxes and masks, {head.instance_masks.boxes.queries:,} queries, {head.labels:,} labels"


def operations(masks: InstanceMasksSpec, labels: int, size: tuple[int, int]) -> int:
    """The operations for an image of `size` pixels, less those of matrices with one vector."""
    count, width = masks.boxes.queries, masks.hidden_size
    height, columns = size
    area = height // masks.ratio * (columns // masks.ratio)
    dense = width * (labels + 4 + (masks.boxes.box_layers - 1) * width + 2 * masks.inner + width)
    products = (count - 1) * dense + masks.blocks * ((area - 1) * width**2 + 9 * area * width)
    return 2 * (products + area * width**2 + count * area * width)


HEAD = InstanceMasks()
