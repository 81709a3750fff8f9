"""Heat maps of the points of a body (Xu et al. 2022, 3.1)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec
from txexport.spec.shapes import Shapes, batch_norm, convolution, under


class Pose:
    """A heat map for each point, from the patches of the last layer's state."""

    kind = HeadKind.POSE
    component = "pose"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """heatmaps (B,points,height,width)."""
        return (floats(names.HEATMAPS, hidden[0], head.labels, names.HEATMAP_HEIGHT, names.HEATMAP_WIDTH),)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The transposed convolutions with their norms, and the projection; or one convolution."""
        assert head.pose is not None
        if head.pose.norm is None:
            return under("project", convolution(hidden_size, head.labels, 3))
        shapes, inputs, size = Shapes(), hidden_size, head.pose.norm.size
        for part in ("first", "second"):
            shapes[f"{part}.weight"] = (inputs, size, 4, 4)
            shapes |= under(f"{part}_norm", batch_norm(size))
            inputs = size
        return shapes | under("project", convolution(size, head.labels, 1))

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of points."""
        return f"pose, {head.labels:,} points"


def operations(head: HeadSpec, hidden_size: int, rows: int, columns: int) -> int:
    """The operations for an image of `rows` and `columns` of patches."""
    assert head.pose is not None
    patches, norm = rows * columns, head.pose.norm
    if norm is None:
        return 2 * patches * head.pose.factor**2 * 9 * hidden_size * head.labels
    size = norm.size
    products = 16 * patches * hidden_size * size + 16 * 4 * patches * size**2
    return 2 * (products + 16 * patches * size * head.labels)


HEAD = Pose()
