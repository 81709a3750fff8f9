"""Inputs of stacks, one file each."""

from importlib import import_module

import onnx_ir as ir

from txexport.contracts.names import ATTENTION_MASK, SPATIAL_SHAPES
from txexport.parts.inputs import file_of
from txexport.spec import MediaStackSpec
from txgraphs._nodes import Place


def signal_embedding(
    stack: MediaStackSpec,
    place: Place,
    signal: ir.Value,
    attention_mask: ir.Value | None = None,
    spatial_shapes: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value | None]:
    """Embed an image or a sound as vectors (B,S,W), or (B,R,C,W) for stages; a masked stack's mask (B,S)."""
    embedding = import_module(f"{__name__}.{file_of(stack)}").embedding
    masks = {ATTENTION_MASK: attention_mask} if stack.masked else {}
    masks |= {} if spatial_shapes is None else {SPATIAL_SHAPES: spatial_shapes}
    result = embedding(stack.embedding, place, signal, **masks)
    x, *mask = result if isinstance(result, tuple) else (result,)
    return x, mask[0] if mask else None
