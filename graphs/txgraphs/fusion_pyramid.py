"""Maps of several sizes that tell one another what they see (Zhao et al. 2024, 4.2)."""

import onnx_ir as ir

from txexport.spec import AggregationPyramidSpec, FusionPyramidSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.doubled import doubled
from txgraphs.inputs.resnet import convolution_norm


@component("y")
def convolution_pair(spec: FusionPyramidSpec | AggregationPyramidSpec, g: Body, x: ir.Value) -> ir.Value:
    """Convolutions of 3 by 3 and of 1 by 1 places, added (Ding et al. 2021, 3.2).

    x (B,inner,R,C) -> y (B,inner,R,C).
    """
    wide = convolution_norm(spec.inner, 3, 1, spec.eps, g / "wide", x)
    narrow = convolution_norm(spec.inner, 1, 1, spec.eps, g / "narrow", x)
    y = g.call(activation(spec.activation), g.op.Add(wide, narrow))
    return y


@component("y")
def fusion(spec: FusionPyramidSpec, g: Body, first: ir.Value, second: ir.Value) -> ir.Value:
    """Two maps joined: one projection through pairs of convolutions, and one beside them.

    first and second (B,size,R,C) -> y (B,size,R,C).
    """
    act, sizes = activation(spec.activation), (spec.inner, 1, 1, spec.eps)
    x = g.op.Concat(first, second, axis=1)  # (B, 2*size, R, C)
    through = g.call(act, convolution_norm(*sizes, g / "through", x))
    beside = g.call(act, convolution_norm(*sizes, g / "beside", x))
    for pair in range(spec.blocks):
        through = convolution_pair(spec, g / f"pairs.{pair}", through)
    y = g.op.Add(through, beside)
    if spec.inner != spec.size:
        y = g.call(act, convolution_norm(spec.size, 1, 1, spec.eps, g / "project", y))
    return y


@component("map_0", "map_1", "map_2", "map_3")
def fusion_pyramid(spec: FusionPyramidSpec, g: Body, maps: dict[str, ir.Value]) -> tuple[ir.Value, ...]:
    """From the coarsest map to the finest, and back.

    maps (B,size,R,C), the finest first, each with twice the rows of the next -> maps.
    """
    act = activation(spec.activation)
    *finer, coarse = maps.values()
    fine: list[ir.Value] = []
    for number, x in enumerate(reversed(finer)):
        lateral = convolution_norm(spec.size, 1, 1, spec.eps, g / f"laterals.{number}", coarse)
        coarse = g.call(act, lateral)
        fine.insert(0, coarse)
        coarse = fusion(spec, g / f"downward.{number}", g.call(doubled, coarse), x)
    results = [coarse]
    for number, x in enumerate(fine):
        stride = convolution_norm(spec.size, 3, 2, spec.eps, g / f"strides.{number}", results[-1])
        results.append(fusion(spec, g / f"upward.{number}", g.call(act, stride), x))
    return tuple(results)
