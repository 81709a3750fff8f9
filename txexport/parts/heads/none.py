"""No head: hidden states."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec
from txexport.spec.shapes import Shapes


class NoHead:
    """The stack's hidden states."""

    kind = HeadKind.NONE
    component = "none"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """last_hidden_state (B,S,W)."""
        return (floats(names.LAST_HIDDEN_STATE, *hidden),)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """None."""
        return {}

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """Empty."""
        return ""


HEAD = NoHead()
