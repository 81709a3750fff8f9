"""The position-wise network of a block."""

from collections.abc import Callable
from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import Activation, FeedForwardSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.activation import activation
from txgraphs.adapted_linear import adapted_linear
from txgraphs.grouped_linear import grouped_linear
from txgraphs.prelu import prelu

Project = Callable[[str, ir.Value], ir.Value]


@component("y")
def feed_forward(spec: FeedForwardSpec, g: Body, x: ir.Value) -> ir.Value:
    """Up, non-linearity, down (Vaswani et al. 2017, 3.3); or gated (Shazeer 2020, 2): x (B,S,W) -> y."""

    def project(part: str, x: ir.Value) -> ir.Value:
        if part == "down":
            return grouped_linear(spec.intermediate_size, spec.bias, spec.down_groups, g / part, x)
        if spec.gated:
            return adapted_linear(spec.hidden_size, spec.bias, 1, spec.adapter_rank, g / part, x)
        return grouped_linear(spec.hidden_size, spec.bias, spec.up_groups, g / part, x)

    y = network(spec, g, project, x)
    return y


def network(spec: FeedForwardSpec, g: Body, project: Project, x: ir.Value) -> ir.Value:
    """As `feed_forward`, with projections by the names of their weights: gate, up and down."""
    if spec.clip is not None:
        high, low, one = (g.op.Constant(value_float=number) for number in (spec.clip, -spec.clip, 1.0))
        gate = g.op.Min(project("gate", x), high)
        up = g.op.Min(g.op.Max(project("up", x), low), high)  # Clip has no bfloat16 on CUDA
        wide = g.op.Mul(_activated(spec, g, gate), g.op.Add(up, one), name="wide")  # (B, S, F)
    elif spec.gated:
        gate = project("gate", x)
        if spec.cutoff is not None:
            gate = g.call(_beyond(spec.cutoff, g.dtype), gate)
        activated = _activated(spec, g, gate)
        wide = g.op.Mul(activated, project("up", x), name="wide")  # (B, S, F)
    else:
        wide = _activated(spec, g, project("up", x), name="wide")  # (B, S, F)
    return project("down", wide)  # (B, S, W)


def _activated(spec: FeedForwardSpec, g: Body, x: ir.Value, **named: str) -> ir.Value:
    """x (B,S,F) -> y (B,S,F)."""
    if spec.activation is Activation.PRELU:
        return prelu(g / "act", x)
    y: ir.Value = g.call(activation(spec.activation), x, **named)
    return y


@cache
def _beyond(cutoff: float, dtype: ir.DataType) -> OnnxFunction:
    """x (B,S,F) -> what exceeds its mean by more than `cutoff` standard deviations, and 0 elsewhere.

    Squares need float32 whatever the graph computes with.
    """
    number = float32(cutoff)
    kind, narrow = int(dtype), dtype != ir.DataType.FLOAT

    @script(domain, default_opset=op)
    def beyond(x):
        if narrow:
            x = op.Cast(x, to=1)
        last = op.Constant(value_ints=[-1])
        width = op.Cast(op.Shape(x, start=-1), to=1)
        mean = op.ReduceSum(x, last) / width  # (B, S, 1)
        apart = x - mean
        spread = op.Sqrt(op.ReduceSum(apart * apart, last) / width)  # (B, S, 1)
        y = op.Relu(x - (mean + spread * op.Constant(value=number)))
        if narrow:
            y = op.Cast(y, to=kind)
        return y

    return beyond
