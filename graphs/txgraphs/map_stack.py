"""The maps of a residual network, without layers over them."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import MapStackSpec
from txgraphs._graph import Graph
from txgraphs.inputs.resnet_maps import resnet_maps_embedding
from txgraphs.stack import Given
from txgraphs.staged_stack import flat_grid


def map_encoder(
    spec: MapStackSpec, graph: Graph, inputs: dict[str, ir.Value], outputs: Given, stack: str = "encoder"
) -> ir.Value:
    """An image's maps, for a head that reads all of them; the twin of txmodels' MapEncoder.

    pixel_values (B,channels,height,width) -> the last map as vectors (B,S,W).
    """
    place = graph / f"{stack}.embedding"
    maps = resnet_maps_embedding(spec.embedding, place, inputs[names.PIXEL_VALUES])
    for one in maps:
        outputs.stage(one)
    flat: ir.Value = graph.call(flat_grid, maps[-1], name="flat")
    return flat
