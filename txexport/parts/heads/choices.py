"""Multiple choice (Devlin et al. 2019, 4.4)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.heads._projection import note, projection
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec
from txexport.spec.shapes import Shapes


class Choices:
    """One score for each choice."""

    kind = HeadKind.CHOICES
    component = "sequence"
    per_sequence = True

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """logits (B,choices)."""
        return (floats(names.LOGITS, hidden[0], names.NUM_CHOICES),)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """Transform and projection."""
        return projection(head, hidden_size, vocab_size)

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """Kind, number of scores, tying."""
        return note("choices", head, vocab_size)


HEAD = Choices()
