"""Inputs of stacks, one file each."""

from importlib import import_module

import onnx_ir as ir

from txexport.parts.inputs import file_of
from txexport.spec import SignalStackSpec
from txgraphs._nodes import Place


def signal_embedding(stack: SignalStackSpec, place: Place, signal: ir.Value) -> ir.Value:
    """The vectors (B,S,W) that a stack's layers read of an image or a sound."""
    vectors: ir.Value = import_module(f"{__name__}.{file_of(stack)}").embedding(
        stack.embedding, place, signal
    )
    return vectors
