"""The connector, which projects vectors of images or sounds to a decoder's embeddings."""

import onnx_ir as ir

from txexport.spec import ConnectorSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("features")
def connector(spec: ConnectorSpec, g: Body, x: ir.Value) -> ir.Value:
    """Neighbours joined, then one projection or two to a decoder's width (Liu et al. 2023, 4.1).

    x (B,S,W) -> features (B,N,size).
    """
    op = g.op
    if spec.skipped:
        first, axis = op.Constant(value_ints=[spec.skipped]), op.Constant(value_ints=[1])
        x = op.Slice(x, first, op.Shape(x, start=1, end=2), axis)
    if spec.norm is not None and spec.normed_first:
        x = norm(spec.norm, g / "norm", x)
    if spec.grid is None:
        x = op.Reshape(x, op.Constant(value_ints=[0, -1, spec.joined * spec.hidden_size]), name="joined")
    elif spec.merged > 1:
        x = neighbours(spec.grid, spec.merged, g, x)  # (B, N, merged*merged*W)
    if spec.pooled:
        each = op.Reshape(x, op.Constant(value_ints=[0, 0, spec.joined, -1]))
        total = op.ReduceSum(each, op.Constant(value_ints=[2]), keepdims=0)  # (B, N, W)
        x = op.Div(total, op.Constant(value_float=float(spec.joined)))
    if spec.norm is not None and not spec.normed_first:
        x = norm(spec.norm, g / "norm", x)
    if spec.intermediate_size is None or spec.activation is None:
        features = linear(spec.bias, g / "project", x)
    else:
        wide = g.call(activation(spec.activation), linear(spec.bias, g / "up", x), name="wide")
        features = linear(spec.bias, g / "down", wide)
    return features


def neighbours(grid: tuple[int, int], merged: int, g: Body, x: ir.Value) -> ir.Value:
    """x (B,R*C,W) -> y (B,R*C/merged²,merged²*W): squares of neighbours, row by row."""
    op, (rows, columns) = g.op, grid
    split = op.Constant(value_ints=[0, rows // merged, merged, columns // merged, merged, -1])
    apart = op.Transpose(op.Reshape(x, split), perm=[0, 1, 3, 2, 4, 5])
    vectors = op.Constant(value_ints=[rows * columns // merged**2])
    sizes = op.Shape(x, start=0, end=1), vectors, op.Constant(value_ints=[-1])
    y = op.Reshape(apart, op.Concat(*sizes, axis=0))
    return y
