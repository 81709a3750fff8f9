"""Patches of an image of any shape, in a row (Lee et al. 2023, 2.1)."""

import onnx_ir as ir

from txexport.spec import FlattenedPatchesSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear


@component("x", "mask")
def flattened_patches_embedding(
    spec: FlattenedPatchesSpec, g: Body, flattened_patches: ir.Value, attention_mask: ir.Value
) -> tuple[ir.Value, ...]:
    """Patches projected, plus learned vectors of their rows and columns.

    flattened_patches (B,S,2+numbers), attention_mask (B,S) -> x (B,S,W), mask (B,S). The first two numbers of
    a patch are its row and its column.
    """
    op, last = g.op, g.op.Constant(value_ints=[2])
    parts = ["row", "column", "numbers"]
    sizes = op.Constant(value_ints=[1, 1, spec.numbers])
    row, column, numbers = op.Split(flattened_patches, sizes, axis=2, name=parts)
    rows = op.Cast(op.Squeeze(row, last), to=ir.DataType.INT64, name="rows")  # (B, S)
    columns = op.Cast(op.Squeeze(column, last), to=ir.DataType.INT64, name="columns")
    projected = linear(True, g / "project", numbers)  # (B, S, W)
    placed = op.Add(projected, op.Gather(g.weight("row.weight"), rows), name="placed")
    x = op.Add(placed, op.Gather(g.weight("column.weight"), columns))
    return x, op.Identity(attention_mask)


embedding = flattened_patches_embedding
