"""Points, corners of boxes, and the places of an image as vectors."""

import math

import onnx_ir as ir

from txexport.contracts.names import ABSENT, CORNERS, NO_POINT
from txgraphs._component import Body, component


@component("vectors")
def frequencies(g: Body, coordinates: ir.Value) -> ir.Value:
    """Sines and cosines of random frequencies (Tancik et al. 2020, 3.2).

    coordinates (...,2), x and y from 0 to 1 -> vectors (...,2*count).
    """
    op = g.op
    two, one, turn = (op.CastLike(op.Constant(value_float=n), coordinates) for n in (2.0, 1.0, 2 * math.pi))
    signed = op.Sub(op.Mul(two, coordinates), one)
    angles = op.Mul(turn, op.MatMul(signed, g.weight("weight")))  # (..., count)
    vectors = op.Concat(op.Sin(angles), op.Cos(angles), axis=-1)
    return vectors


@component("y")
def prompts(g: Body, points: ir.Value, input_labels: ir.Value) -> ir.Value:
    """The vectors of points by their labels (Kirillov et al. 2023, 3 and A).

    points (B,P,N,W), encoded coordinates, input_labels (B,P,N) -> (B,P,N,W). 1 is in the object, 0 outside of
    it, 2 and 3 the upper left and lower right corner of a box. A point labelled -1 is none, which
    replaces a box. One labelled -10 is padding, and its vector 0.
    """
    op = g.op
    labels = op.Unsqueeze(input_labels, op.Constant(value_ints=[-1]))

    def chosen(label: int) -> ir.Value:
        return op.Equal(labels, op.Constant(value_int=label))

    zero = op.CastLike(op.Constant(value_float=0.0), points)
    y = op.Where(chosen(NO_POINT), g.weight("none.weight"), points)
    y = op.Where(chosen(ABSENT), zero, y)
    for label in range(CORNERS[1] + 1):
        y = op.Add(y, op.Where(chosen(label), g.weight(f"labels.{label}.weight"), zero))
    return y
