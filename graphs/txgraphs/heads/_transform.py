"""The transform and the projection that all heads share."""

from collections.abc import Callable

import onnx_ir as ir

from txexport.spec import HeadSpec
from txgraphs._component import Body
from txgraphs._nodes import Place, Received
from txgraphs.activation import activation
from txgraphs.linear import linear, project
from txgraphs.norm import norm

# input_ids and attention_mask (B,S), if there are any; of a detector references (B,Q,4) in the mask's place.
Tokens = tuple[ir.Value | None, ir.Value | None]
Word = Callable[[], Received]  # the word embedding (V,W) of the stack, for a tied head


def transformed(spec: HeadSpec, g: Body | Place, x: ir.Value) -> ir.Value:
    """x (...,W) as the input of the projection: of the same width, or factored."""
    if spec.activation is not None:
        x = g.call(activation(spec.activation), linear(spec.dense_bias, g / "dense", x))
    if spec.norm is not None:
        x = norm(spec.norm, g / "norm", x)
    return x if spec.factored_size is None else linear(spec.factored_bias, g / "narrow", x)


def projected(spec: HeadSpec, g: Body, x: ir.Value, word: Received | None = None) -> ir.Value:
    """x (...,W), a tied head's word embedding (V,W) -> scores (...,V); W less the columns beside it."""
    weight = g.matrix("weight") if word is None else word
    if spec.beside is None:
        return project(spec.bias, g, x, weight)
    start, cut, end, axis = (g.op.Constant(value_ints=[at]) for at in (0, -spec.beside, 2**62, -1))
    first, others = g.op.Slice(x, start, cut, axis), g.op.Slice(x, cut, end, axis)
    return g.op.Add(project(spec.bias, g, first, weight), linear(False, g / "beside", others), name="scores")
