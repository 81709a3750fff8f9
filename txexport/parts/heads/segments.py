"""Scores of labels for the places of an image (Xie et al. 2021, 3.2)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec, SegmentsSpec
from txexport.spec.shapes import Shapes, linear, under


class Segments:
    """Scores of the labels of every place, from the maps of all stages."""

    kind = HeadKind.SEGMENTS
    component = "segments"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """logits (B,labels,height,width), of the places of the finest map."""
        return (floats(names.LOGITS, hidden[0], head.labels, names.LOGITS_HEIGHT, names.LOGITS_WIDTH),)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The projections of the maps, the joint one in parts, its norm, and that of the scores."""
        assert head.segments is not None
        width, shapes = head.segments.hidden_size, Shapes()
        for number, size in enumerate(head.segments.sizes):
            shapes |= under(f"projects.{number}", linear(size, width, True))
        for number in range(len(head.segments.sizes)):
            shapes[f"fuses.{number}.weight"] = (width, width, 1, 1)
        shapes |= {f"norm.{name}": (width,) for name in ("weight", "bias", "mean", "variance")}
        return shapes | {"scores.weight": (head.labels, width, 1, 1), "scores.bias": (head.labels,)}

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of labels."""
        return f"segments, {head.labels:,} labels"


def operations(segments: SegmentsSpec, labels: int, grids: list[tuple[int, int]]) -> int:
    """The operations for maps of `grids`, rows and columns, less those of one vector of each map.

    The matrices that project maps are counted once elsewhere.
    """
    width = segments.hidden_size
    counts = [rows * columns for rows, columns in grids]
    products = sum(
        ((count - 1) * size + count * width) * width
        for count, size in zip(counts, segments.sizes, strict=True)
    )
    return 2 * (products + counts[0] * width * labels)


HEAD = Segments()
