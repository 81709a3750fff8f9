"""Attention to a few points near a reference (Zhu et al. 2021, 4.1)."""

import onnx_ir as ir

from txexport.spec import DeformableAttentionSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear


@component("y")
def deformable_attention(
    spec: DeformableAttentionSpec,
    g: Body,
    x: ir.Value,
    references: ir.Value,
    image: ir.Value,
    sizes: dict[str, ir.Value],
    **masks: ir.Value,
) -> ir.Value:
    """Shares of values at learned offsets from a box's centre or a point, in maps of several sizes.

    x (B,Q,W), boxes (B,Q,4) or points (B,Q,2), image (B,S,W) of all levels, their sizes -> y (B,Q,W). A size
    is the rows and columns of a level. Of references of each level there are (B,Q,L,4) or (B,Q,L,2). The mask
    `real` (B,S) is false for places whose values are zeros.
    """
    op, heads, counts = g.op, spec.num_heads, spec.points_of_levels
    points = sum(counts)

    def ints(*numbers: int) -> ir.Value:
        return op.Constant(value_ints=[*numbers])

    def number(value: float) -> ir.Value:
        return op.CastLike(op.Constant(value_float=value), x)

    def around() -> ir.Value:
        if not spec.by_level:
            return op.Unsqueeze(references, ints(2, 3))  # (B, Q, 1, 1, 4 or 2)
        wide = op.Expand(op.Unsqueeze(references, ints(3)), ints(1, 1, 1, spec.points, 1))
        return op.Reshape(wide, ints(0, 0, 1, points, 4 if spec.boxes else 2))  # (B, Q, 1, L*P, 4 or 2)

    offsets = op.Reshape(linear(True, g / "offsets", x), ints(0, 0, heads, points, 2))
    if spec.boxes:
        if spec.counts:
            factors = op.Unsqueeze(g.weight("factors"), ints(1))  # (L*P, 1)
            offsets = op.Mul(offsets, factors, name="divided")  # (B, Q, N, L*P, 2)
        else:
            offsets = op.Div(offsets, number(float(spec.points)))  # (B, Q, N, L*P, 2)
        boxes = around()
        centre = op.Slice(boxes, ints(0), ints(2), ints(4))  # (B, Q, 1, 1, 2)
        extent = op.Slice(boxes, ints(2), ints(4), ints(4))
        locations = op.Add(centre, op.Mul(op.Mul(offsets, extent), number(spec.scale)))
    else:
        turned = [op.Gather(size, ints(1, 0)) for size in sizes.values()]
        steps = op.Concat(*(op.Expand(size, ints(spec.points, 2)) for size in turned), axis=0)  # (L*P, 2)
        offsets = op.Div(offsets, op.CastLike(steps, x))  # (B, Q, N, L*P, 2)
        locations = op.Add(around(), offsets)
    locations = op.Sub(op.Mul(locations, number(2.0)), number(1.0))
    queries = op.Shape(x, start=1, end=2)
    shape = op.Concat(ints(-1), queries, ints(points, 2), axis=0)
    grid = op.Reshape(op.Transpose(locations, perm=[0, 2, 1, 3, 4]), shape)  # (B*N, Q, L*P, 2)
    shares = op.Reshape(linear(True, g / "shares", x), ints(0, 0, heads, points))
    shares = op.Transpose(op.Softmax(shares, axis=3), perm=[0, 2, 1, 3])  # (B, N, Q, L*P)
    shape = op.Concat(ints(-1, 1), queries, ints(points), axis=0)
    shares = op.Reshape(shares, shape)  # (B*N, 1, Q, L*P)
    values = linear(True, g / "v", image) if spec.projected else image
    if "real" in masks:
        values = op.Where(op.Unsqueeze(masks["real"], ints(2)), values, number(0.0))
    values = op.Transpose(values, perm=[0, 2, 1])  # (B, W, S)
    mixed, start = None, ints(0)
    for level, size in enumerate(sizes.values()):
        end = op.Add(start, op.ReduceProd(size, keepdims=1))
        shape = op.Concat(ints(-1, spec.hidden_size // heads), size, axis=0)
        cells = op.Reshape(op.Slice(values, start, end, ints(2)), shape)  # (B*N, H, rows, columns)
        before = sum(counts[:level])
        start, first, last = end, ints(before), ints(before + counts[level])
        near = op.Slice(grid, first, last, ints(2))
        read = op.GridSample(cells, near, mode="linear", name=f"read.{level}")  # (B*N, H, Q, P)
        weighed = op.Mul(read, op.Slice(shares, first, last, ints(3)))
        total = op.ReduceSum(weighed, ints(3), keepdims=0)  # (B*N, H, Q)
        mixed = total if mixed is None else op.Add(mixed, total)
    shape = op.Concat(op.Shape(x, end=1), ints(spec.hidden_size), queries, axis=0)
    y = op.Transpose(op.Reshape(mixed, shape), perm=[0, 2, 1])
    if spec.projected:
        y = linear(True, g / "o", y)
    return y
