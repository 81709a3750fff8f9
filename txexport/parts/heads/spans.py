"""Spans of a text (Devlin et al. 2019, 4.2)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.heads._projection import note, projection
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec
from txexport.spec.shapes import Shapes, linear, norm, under

ENDS = ("start", "end")
QUESTION, EACH = "question", "each"  # what reads the vector of a question, and every vector


class Spans:
    """Scores of the first and the last token of an answer."""

    kind = HeadKind.SPANS
    component = "spans"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """start_logits and end_logits (B,S)."""
        return floats(names.START_LOGITS, *hidden[:-1]), floats(names.END_LOGITS, *hidden[:-1])

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """Transform and projection; of question-aware spans, transforms of the question and each vector."""
        if not head.question_aware:
            return projection(head, hidden_size, vocab_size)
        shapes: Shapes = {}
        for end in ENDS:
            for owner in (QUESTION, EACH):
                shapes |= under(f"{owner}.{end}", _transform(head, hidden_size))
            shapes |= under(f"{QUESTION}.{end}.project", linear(hidden_size, hidden_size, False))
        return shapes

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """Kind, number of scores, tying."""
        return note("spans", head, vocab_size)


def _transform(head: HeadSpec, hidden_size: int) -> Shapes:
    """A dense layer and its norm."""
    assert head.norm is not None
    dense = linear(hidden_size, hidden_size, head.dense_bias)
    return under("dense", dense) | under("norm", norm(head.norm))


HEAD = Spans()
