"""The parameters that all heads but none share: a transform and a projection."""

from txexport.spec import HeadSpec
from txexport.spec.shapes import Shapes, linear, norm, under


def projection(head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
    """Transform and projection to the vocabulary or the labels; a tied projection adds nothing."""
    shapes: Shapes = {}
    outputs, inner = head.labels or vocab_size, head.projection_size(hidden_size)
    if not head.tied:
        shapes["weight"] = (outputs, inner)
    if head.bias:
        shapes["bias"] = (outputs,)
    if head.activation is not None:
        shapes |= under("dense", linear(hidden_size, inner, head.dense_bias))
    if head.norm is not None:
        shapes |= under("norm", norm(head.norm))
    if head.factored_size is not None:
        shapes |= under("narrow", linear(hidden_size, head.factored_size, head.factored_bias))
    return shapes
