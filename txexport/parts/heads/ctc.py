"""Connectionist temporal classification (Graves et al. 2006)."""

from txexport.parts.heads._projection import note
from txexport.parts.heads.tokens import Tokens
from txexport.spec import HeadKind, HeadSpec


class CTC(Tokens):
    """Scores of the vocabulary and the blank for every vector: the head of tokens."""

    kind = HeadKind.CTC

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """Kind, number of scores."""
        return note("CTC", head, vocab_size)


HEAD = CTC()
