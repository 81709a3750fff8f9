"""Heads of stacks, one file each."""

from importlib import import_module

import onnx_ir as ir

from txexport.contracts import names
from txexport.parts import head_of
from txexport.spec import FusedSegmentsSpec, HeadSpec, PyramidSpec
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word
from txgraphs.heads.depth import depth_head
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
    if spec.depth is not None:
        return {names.PREDICTED_DEPTH: depth_head(spec.depth, place, states, pixel_values)}
    if isinstance(spec.segments, PyramidSpec):
        return {names.LOGITS: pyramid_head(spec.segments, place, states, pixel_values)}
    assert isinstance(spec.segments, FusedSegmentsSpec)
    return {names.LOGITS: fused_segments_head(spec.segments, place, states, pixel_values)}
