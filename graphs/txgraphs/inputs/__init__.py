"""Inputs of stacks, one file each."""

from importlib import import_module

import onnx_ir as ir

from txexport.parts.inputs import file_of
from txexport.spec import SignalStackSpec
from txgraphs._nodes import Place


def signal_embedding(stack: SignalStackSpec, place: Place, signal: ir.Value) -> ir.Value:
    """Embed an image or a sound as vectors (B,S,W)."""
    vectors: ir.Value = import_module(f"{__name__}.{file_of(stack)}").embedding(
        stack.embedding, place, signal
    )
    return vectors
