"""Parameters and description of the heads with a projection: all but `none`."""

from txexport.spec import HeadSpec
from txexport.spec.shapes import Shapes, linear, norm, under


def projection(head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
    """Transform and projection to the vocabulary or the labels; a tied projection has no parameters."""
    shapes: Shapes = {}
    outputs, inner = head.labels or vocab_size, head.projection_size(hidden_size)
    if not head.tied:
        shapes["weight"] = (outputs, inner - (head.beside or 0))
    if head.bias:
        shapes["bias"] = (outputs,)
    if head.beside is not None:
        shapes |= under("beside", linear(head.beside, outputs, bias=False))
    if head.activation is not None:
        shapes |= under("dense", linear(hidden_size, inner, head.dense_bias))
    if head.norm is not None:
        shapes |= under("norm", norm(head.norm))
    if head.factored_size is not None:
        shapes |= under("narrow", linear(hidden_size, head.factored_size, head.factored_bias))
    return shapes


def note(kind: str, head: HeadSpec, vocab_size: int) -> str:
    """The kind of a head, its number of scores, and whether it is tied to the word embedding."""
    tied = ", tied to the words" * head.tied
    return f"{kind}, {head.labels or vocab_size:,} scores{tied}"
