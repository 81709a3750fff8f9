"""Heads of stacks, one file each."""

from importlib import import_module

import onnx_ir as ir

from txexport.contracts import names
from txexport.parts import head_of
from txexport.spec import DepthSpec, FusedSegmentsSpec, HeadSpec, PyramidSpec
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word
from txgraphs.heads.depth import depth_head
from txgraphs.heads.pose import pose_head
from txgraphs.heads.segments import fused_segments_head, pyramid_head


def head_outputs(
    spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word
) -> dict[str, ir.Value]:
    """The graph's outputs, by name, of a head over an encoder's hidden states x (B,S,W)."""
    component = import_module(f"{__name__}.{head_of(spec).component}")
    outputs: dict[str, ir.Value] = component.outputs(spec, place, x, tokens, word)
    return outputs


def dense_outputs(
    spec: HeadSpec, place: Place, states: dict[str, ir.Value], pixel_values: ir.Value
) -> dict[str, ir.Value]:
    """The graph's outputs, by name, of a head over the patches of several states (B,S,W) of an image."""
    if isinstance(spec.depth, DepthSpec):
        return {names.PREDICTED_DEPTH: depth_head(spec.depth, place, states, pixel_values)}
    if spec.pose is not None:
        return {names.HEATMAPS: pose_head(spec.pose, place, states, pixel_values)}
    if isinstance(spec.segments, PyramidSpec):
        return {names.LOGITS: pyramid_head(spec.segments, place, states, pixel_values)}
    assert isinstance(spec.segments, FusedSegmentsSpec)
    return {names.LOGITS: fused_segments_head(spec.segments, place, states, pixel_values)}


def map_outputs(spec: HeadSpec, place: Place, x: ir.Value, maps: dict[str, ir.Value]) -> dict[str, ir.Value]:
    """The graph's outputs, by name, of a head over the maps (B,R,C,W) of all stages, and hidden states x."""
    component = import_module(f"{__name__}.{head_of(spec).component}")
    outputs: dict[str, ir.Value] = component.outputs_of_maps(spec, place, x, maps)
    return outputs
