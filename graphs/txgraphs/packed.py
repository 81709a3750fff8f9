"""Rows, columns and masks of packed patches: those of all images, one behind another."""

from functools import cache

from onnxscript import OnnxFunction, script

from txgraphs import domain, op


@cache
def patch_places(merged: int) -> OnnxFunction:
    """grids (I,3) of frames, rows and columns, and patches (N,...) -> of each patch three numbers.

    Row and column (2,1,N), the number of the first patch of its image, or of its frame (N), and the columns
    of that (N). An image has squares of `merged` by `merged` neighbours, row by row (Wang et al. 2024, 2.1).
    """

    @script(domain, default_opset=op)
    def patch_places(grids, patches):
        zero, one, two = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_int=2)
        side = op.Constant(value_int=merged)
        columns = op.Gather(grids, two, axis=1)  # (I)
        areas = op.Gather(grids, one, axis=1) * columns
        counts = op.Gather(grids, zero, axis=1) * areas
        ends = op.CumSum(counts, zero)
        index = op.Range(zero, op.Squeeze(op.Shape(patches, start=0, end=1)), one)  # (N)
        ended = op.LessOrEqual(op.Unsqueeze(ends, op.Constant(value_ints=[1])), index)  # (I, N)
        image = op.ReduceSum(op.Cast(ended, to=7), op.Constant(value_ints=[0]), keepdims=0)  # (N)
        within = op.Mod(index - op.Gather(ends - counts, image), op.Gather(areas, image))
        wide = op.Gather(columns, image)
        square, inner = within / (side * side), op.Mod(within, side * side)
        row = square / (wide / side) * side + inner / side
        column = op.Mod(square, wide / side) * side + op.Mod(inner, side)
        axes = op.Constant(value_ints=[0, 1])
        coordinates = op.Concat(op.Unsqueeze(row, axes), op.Unsqueeze(column, axes), axis=0)  # (2, 1, N)
        first = index - within
        return coordinates, first, wide

    return patch_places


@cache
def window_mask(window: int | None) -> OnnxFunction:
    """As `patch_places` gives them -> mask (1,1,N,N): patches of one image, or of one square of it.

    A square has `window` rows and columns, and fewer at the end of an image (Bai et al. 2025, 2.1.1).
    """
    windowed, size = window is not None, window or 1

    @script(domain, default_opset=op)
    def window_mask(coordinates, first, wide):
        group = op.Identity(first)  # (N): of patches that attend to each other
        if windowed:
            squares = coordinates / op.Constant(value_int=size)  # (2, 1, N)
            every = op.Constant(value_ints=[-1])
            row = op.Reshape(op.Gather(squares, op.Constant(value_ints=[0])), every)  # (N)
            column = op.Reshape(op.Gather(squares, op.Constant(value_ints=[1])), every)
            group = first + row * wide + column
        same = op.Equal(op.Unsqueeze(group, op.Constant(value_ints=[1])), group)  # (N, N)
        mask = op.Unsqueeze(same, op.Constant(value_ints=[0, 1]))
        return mask

    return window_mask
