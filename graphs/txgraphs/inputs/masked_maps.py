"""Images with a mask, as the last maps of a residual network (He et al. 2016, 4.1)."""

import onnx_ir as ir

from txexport.spec import MaskedMapsSpec
from txgraphs._component import Body, component
from txgraphs.inputs.resnet_maps import resnet_maps_embedding


@component("map_0", "map_1", "map_2", "map_3", "map_4", "map_5", "map_6", "map_7")
def masked_maps_embedding(spec: MaskedMapsSpec, g: Body, pixel_values: ir.Value) -> tuple[ir.Value, ...]:
    """The last maps of a residual network (He et al. 2016, 4.1).

    pixel_values (B,channels,height,width) -> maps (B,R,C,size), the finest first.
    """
    maps = resnet_maps_embedding(spec.maps, g / "network", pixel_values)
    return tuple(maps[-spec.levels :])


embedding = masked_maps_embedding
