"""Labels and boxes of an image's objects (Carion et al. 2020, 3.2)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec
from txexport.spec.shapes import Shapes, linear, under


class Boxes:
    """Scores of labels and a box for each query."""

    kind = HeadKind.BOXES
    component = "boxes"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """logits (B,Q,labels) and pred_boxes (B,Q,4): centre, width, height, as shares of the image's."""
        assert head.boxes is not None
        queries = hidden[0], head.boxes.queries
        return floats(names.LOGITS, *queries, head.labels), floats(names.PRED_BOXES, *queries, 4)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The dense layers of the scores and of the box."""
        assert head.boxes is not None
        shapes: Shapes = {}
        for part, layers, outputs in (
            ("scores", head.boxes.score_layers, head.labels),
            ("box", head.boxes.box_layers, 4),
        ):
            for layer in range(layers):
                size = outputs if layer == layers - 1 else hidden_size
                shapes |= under(f"{part}.{layer}", linear(hidden_size, size, True))
        return shapes

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of queries and of labels."""
        assert head.boxes is not None
        return f"boxes, {head.boxes.queries:,} queries, {head.labels:,} labels"


HEAD = Boxes()
