"""Heads of stacks, one file each."""

from importlib import import_module

import onnx_ir as ir

from txexport.parts import head_of
from txexport.spec import HeadSpec
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word


def head_outputs(
    spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word
) -> dict[str, ir.Value]:
    """The graph's outputs, by name, of a head over an encoder's hidden states x (B,S,W)."""
    component = import_module(f"{__name__}.{head_of(spec).component}")
    outputs: dict[str, ir.Value] = component.outputs(spec, place, x, tokens, word)
    return outputs


def outputs_of_maps(
    spec: HeadSpec, place: Place, x: ir.Value, maps: dict[str, ir.Value]
) -> dict[str, ir.Value]:
    """The graph's outputs, by name, of a head over the maps (B,R,C,W) of all stages, and hidden states x."""
    component = import_module(f"{__name__}.{head_of(spec).component}")
    outputs: dict[str, ir.Value] = component.outputs_of_maps(spec, place, x, maps)
    return outputs
