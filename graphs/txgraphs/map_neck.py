"""Maps of several stages of an image encoder, each projected to one width."""

import onnx_ir as ir

from txexport.spec import MapNeckSpec
from txgraphs._component import Body, component
from txgraphs.doubled import doubled


@component("finest", "finer", "third")
def map_neck(spec: MapNeckSpec, g: Body, **x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Projections of every map, coarser ones added to finer ones (Lin et al. 2017, 3).

    x (B,R,C,W) of every stage -> maps (B,size/8,R,C), (B,size/4,R/2,C/2), (B,size,R/4,C/4).
    """
    op, maps = g.op, list(x.values())
    features: list[ir.Value] = []  # from the coarsest map on
    for stage in reversed(range(len(maps))):
        weights = g.weight(f"projects.{stage}.weight"), g.weight(f"projects.{stage}.bias")
        projected = op.Conv(op.Transpose(maps[stage], perm=[0, 3, 1, 2]), *weights, name="projected")
        if stage in spec.top_down:
            projected = op.Add(projected, g.call(doubled, features[-1]))
        features.append(projected)  # (B, size, R, C)
    finest, finer = (
        op.Conv(features[-1 - part], g.weight(f"narrow.{part}.weight"), g.weight(f"narrow.{part}.bias"))
        for part in range(2)
    )
    shape = op.Constant(value_ints=[1, -1, 1, 1])
    third = op.Add(features[-3], op.Reshape(g.weight("no_memory.weight"), shape))
    return finest, finer, third
