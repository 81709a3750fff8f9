"""The head as a component that reads hidden states."""

from txexport.parts.heads import head_of
from txexport.parts.part import Readout
from txexport.spec import HeadSpec


def head(spec: HeadSpec, vocab_size: int, embedding: str) -> Readout:
    """The head of a spec; `embedding` names the matrix that it may be tied to."""
    kind = head_of(spec)
    note = kind.note(spec, vocab_size)
    tied = embedding if note and spec.tied else None
    return Readout("head", note, every=not kind.per_sequence, tied=tied)
