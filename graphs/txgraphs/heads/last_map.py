"""No head: the last map of a network of convolutions."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place


@component("channels")
def last_map(g: Body, last: ir.Value) -> ir.Value:
    """The last map, channels first: (B,R,C,W) -> (B,W,R,C)."""
    channels = g.op.Transpose(last, perm=[0, 3, 1, 2])
    return channels


def outputs_of_maps(
    spec: HeadSpec, place: Place, x: ir.Value, maps: dict[str, ir.Value]
) -> dict[str, ir.Value]:
    """Maps (B,R,C,W) -> the graph's output: last_hidden_state (B,W,R,C) of the last one."""
    *_, last = maps.values()
    return {names.LAST_HIDDEN_STATE: last_map(place, last)}
