"""Images as the maps of all stages of a residual network (He et al. 2016, 4.1)."""

import onnx_ir as ir

from txexport.spec import ResNetMapsSpec
from txgraphs._component import Body, component
from txgraphs.inputs.resnet import stage_maps


@component("map_0", "map_1", "map_2", "map_3", "map_4", "map_5", "map_6", "map_7")
def resnet_maps_embedding(spec: ResNetMapsSpec, g: Body, pixel_values: ir.Value) -> tuple[ir.Value, ...]:
    """The maps of all stages of a residual network (He et al. 2016, 4.1).

    pixel_values (B,channels,height,width) -> maps (B,R,C,size), the finest first.
    """
    maps = stage_maps(spec.network, g, pixel_values)
    return tuple(g.op.Transpose(one, perm=[0, 2, 3, 1]) for one in maps)


embedding = resnet_maps_embedding
