"""The maps of a network of convolutions, without layers over them."""

from importlib import import_module

import onnx_ir as ir

from txexport.contracts import names
from txexport.parts.inputs import file_of
from txexport.spec import MapStackSpec
from txgraphs._graph import Graph
from txgraphs.stack import Given
from txgraphs.staged_stack import flat_grid


def map_encoder(
    spec: MapStackSpec, graph: Graph, inputs: dict[str, ir.Value], outputs: Given, stack: str = "encoder"
) -> ir.Value:
    """An image's maps, for a head that reads all of them, or the last one; the twin of txmodels' MapEncoder.

    pixel_values (B,channels,height,width) -> the last map as vectors (B,S,W).
    """
    place = graph / f"{stack}.embedding"
    embedding = import_module(f"txgraphs.inputs.{file_of(spec)}").embedding
    maps = embedding(spec.embedding, place, inputs[names.PIXEL_VALUES])
    for one in maps:
        outputs.stage(one)
    flat: ir.Value = graph.call(flat_grid, maps[-1], name="flat")
    return flat
