"""Connectionist temporal classification (Graves et al. 2006)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.heads._projection import note, projection
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec
from txexport.spec.shapes import Shapes


class CTC:
    """Scores of the vocabulary and the blank for every vector."""

    kind = HeadKind.CTC
    component = "tokens"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """logits (B,S,vocabulary)."""
        return (floats(names.LOGITS, *hidden[:-1], head.labels),)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """Transform and projection."""
        return projection(head, hidden_size, vocab_size)

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """Kind, number of scores."""
        return note("CTC", head, vocab_size)


HEAD = CTC()
