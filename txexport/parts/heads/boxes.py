"""Labels and boxes of an image's objects (Carion et al. 2020, 3.2)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.parts.query_layers import box
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
        """The dense layers of the scores, and of the box or of what changes the scores."""
        assert head.boxes is not None
        shapes = under("scores", box(hidden_size, head.boxes.score_layers, head.labels))
        if (quality := head.boxes.quality) is not None:
            for layer, (inputs, outputs) in enumerate(quality.sizes):
                shapes |= under(f"quality.{layer}", linear(inputs, outputs, True))
            return shapes
        return shapes | under("box", box(hidden_size, head.boxes.box_layers, 4))

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of queries and of labels."""
        assert head.boxes is not None
        return f"boxes, {head.boxes.queries:,} queries, {head.labels:,} labels"


HEAD = Boxes()
