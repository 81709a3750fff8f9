"""No head: the last map of a network of convolutions."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec
from txexport.spec.shapes import Shapes


class LastMap:
    """The last map, channels first."""

    kind = HeadKind.LAST_MAP
    component = "last_map"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """last_hidden_state (B,W,R,C)."""
        return (floats(names.LAST_HIDDEN_STATE, hidden[0], hidden[2], names.MAP_HEIGHT, names.MAP_WIDTH),)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """None."""
        return {}

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """Empty."""
        return ""


HEAD = LastMap()
