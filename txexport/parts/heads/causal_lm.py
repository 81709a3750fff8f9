"""Causal language modelling (Radford et al. 2018, 3.1)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.heads._projection import note, projection
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec
from txexport.spec.shapes import Shapes


class CausalLM:
    """Scores of the next token."""

    kind = HeadKind.CAUSAL_LM
    component = "none"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """logits (B,L,V), for the L scored positions of `hidden`."""
        return (floats(names.LOGITS, *hidden[:-1], vocab_size),)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """Transform and projection."""
        return projection(head, hidden_size, vocab_size)

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """Kind, number of scores, tying."""
        return note("causal LM", head, vocab_size)


HEAD = CausalLM()
