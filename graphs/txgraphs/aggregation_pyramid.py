"""A feature pyramid that fuses maps from coarse to fine and back (Peng et al. 2024, A.1)."""

import onnx_ir as ir

from txexport.spec import AggregationPyramidSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.convolution_norm import convolution_norm, depthwise_norm
from txgraphs.doubled import doubled
from txgraphs.fusion_pyramid import convolution_pair


@component("y")
def pair_stage(spec: AggregationPyramidSpec, g: Body, x: ir.Value) -> ir.Value:
    """Two projections of a map, one of them through pairs of convolutions, added.

    x (B,inputs,R,C) -> y (B,inner,R,C).
    """
    act, sizes = activation(spec.activation), (spec.inner, 1, 1, spec.eps)
    through = g.call(act, convolution_norm(*sizes, g / "through", x))
    beside = g.call(act, convolution_norm(*sizes, g / "beside", x))
    for pair in range(spec.blocks):
        through = convolution_pair(spec, g / f"pairs.{pair}", through)
    y = g.op.Add(through, beside)
    return y


@component("y")
def aggregation(spec: AggregationPyramidSpec, g: Body, first: ir.Value, second: ir.Value) -> ir.Value:
    """Two maps fused: a projection of both, half of which goes through two stages (Wang et al. 2024, 4.2).

    first and second (B,size,R,C) -> y (B,size,R,C).
    """
    op, act, size, inner = g.op, activation(spec.activation), spec.size, spec.inner
    joined = op.Concat(first, second, axis=1)  # (B, 2*size, R, C)
    both = g.call(act, convolution_norm(2 * size, 1, 1, spec.eps, g / "both", joined))
    halves = op.Constant(value_ints=[size, size])
    _, x = op.Split(both, halves, axis=1, name=["first_half", "second_half"])
    parts = [both]
    for number in range(2):
        x = pair_stage(spec, g / f"stages.{number}", x)
        x = g.call(act, convolution_norm(inner, 3, 1, spec.eps, g / f"wide.{number}", x))  # (B, inner, R, C)
        parts.append(x)
    projected = convolution_norm(size, 1, 1, spec.eps, g / "project", op.Concat(*parts, axis=1))
    y = g.call(act, projected)
    return y


@component("y")
def separable_halving(spec: AggregationPyramidSpec, g: Body, x: ir.Value) -> ir.Value:
    """A projection, and a depthwise convolution with a stride of 2.

    x (B,size,R,C) -> y (B,size,R/2,C/2).
    """
    point = convolution_norm(spec.size, 1, 1, spec.eps, g / "point", x)
    y = depthwise_norm(spec.size, 3, 2, spec.eps, g / "each", point)
    return y


@component("map_0", "map_1", "map_2", "map_3")
def aggregation_pyramid(
    spec: AggregationPyramidSpec, g: Body, maps: dict[str, ir.Value]
) -> tuple[ir.Value, ...]:
    """From the coarsest map to the finest, and back.

    maps (B,size,R,C), the finest first, each with twice the rows of the next -> maps.
    """
    *finer, coarse = maps.values()
    fine: list[ir.Value] = []
    for number, x in enumerate(reversed(finer)):
        coarse = convolution_norm(spec.size, 1, 1, spec.eps, g / f"laterals.{number}", coarse)
        fine.insert(0, coarse)
        coarse = aggregation(spec, g / f"downward.{number}", g.call(doubled, coarse), x)
    results = [coarse]
    for number, x in enumerate(fine):
        halved = separable_halving(spec, g / f"strides.{number}", results[-1])
        results.append(aggregation(spec, g / f"upward.{number}", halved, x))
    return tuple(results)
