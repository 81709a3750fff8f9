"""Heads of stacks, one file each."""

from txexport.parts.heads.causal_lm import CAUSAL_LM
from txexport.parts.heads.choices import CHOICES
from txexport.parts.heads.masked_lm import MASKED_LM
from txexport.parts.heads.none import NONE
from txexport.parts.heads.sequence import SEQUENCE
from txexport.parts.heads.spans import SPANS
from txexport.parts.heads.tokens import TOKENS
from txexport.parts.part import Head
from txexport.spec import HeadSpec

EVERY: tuple[Head, ...] = (NONE, MASKED_LM, CAUSAL_LM, SEQUENCE, CHOICES, TOKENS, SPANS)
OF_KIND: dict[str, Head] = {one.kind: one for one in EVERY}


def head_of(spec: HeadSpec) -> Head:
    """The head that a spec describes."""
    return OF_KIND[spec.kind]
