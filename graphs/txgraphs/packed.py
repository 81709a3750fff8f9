"""Rows, columns and masks of packed patches: those of all images, one behind another."""

from functools import cache

from onnxscript import OnnxFunction, script

from txgraphs import domain, op
from txgraphs._constants import float32


@cache
def patch_places(merged: int) -> OnnxFunction:
    """grids (I,3) of frames, rows and columns, and patches (N,...) -> numbers of each patch.

    Row and column (2,1,N), the rows and columns of its image (2,1,N), and the number of the first patch of
    that, or of its frame (N). An image has squares of `merged` by `merged` neighbours, row by row (Wang et
    al. 2024, 2.1).
    """

    @script(domain, default_opset=op)
    def patch_places(grids, patches):
        zero, one, two = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_int=2)
        side = op.Constant(value_int=merged)
        rows, columns = op.Gather(grids, one, axis=1), op.Gather(grids, two, axis=1)  # (I)
        areas = rows * columns
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
        high = op.Unsqueeze(op.Gather(rows, image), axes)
        sides = op.Concat(high, op.Unsqueeze(wide, axes), axis=0)  # (2, 1, N)
        first = index - within
        return coordinates, sides, first

    return patch_places


@cache
def window_mask(window: int | None) -> OnnxFunction:
    """As `patch_places` gives them -> mask (1,1,N,N): patches of one image, or of one square of it.

    A square has `window` rows and columns, and fewer at the end of an image (Bai et al. 2025, 2.1.1).
    """
    windowed, size = window is not None, window or 1

    @script(domain, default_opset=op)
    def window_mask(coordinates, sides, first):
        group = op.Identity(first)  # (N): of patches that attend to each other
        if windowed:
            squares = coordinates / op.Constant(value_int=size)  # (2, 1, N)
            every = op.Constant(value_ints=[-1])
            row = op.Reshape(op.Gather(squares, op.Constant(value_ints=[0])), every)  # (N)
            column = op.Reshape(op.Gather(squares, op.Constant(value_ints=[1])), every)
            wide = op.Reshape(op.Gather(sides, op.Constant(value_ints=[1])), every)
            group = first + row * wide + column
        same = op.Equal(op.Unsqueeze(group, op.Constant(value_ints=[1])), group)  # (N, N)
        mask = op.Unsqueeze(same, op.Constant(value_ints=[0, 1]))
        return mask

    return window_mask


@cache
def grid_positions(side: int) -> OnnxFunction:
    """As `patch_places` gives them, and a table of positions (side*side,W) -> those of patches (1,N,W).

    The first and the last row of the table are those of an image, whatever its size, and rows between are
    interpolated linearly; so are columns.
    """

    @script(domain, default_opset=op)
    def grid_positions(coordinates, sides, table):
        one, last = op.Constant(value_int=1), op.Constant(value_int=side - 1)
        span = op.Cast(op.Max(sides - one, one), to=1)
        where = op.Cast(coordinates * last, to=1) / span  # (2, 1, N)
        low = op.Floor(where)
        share = where - low
        rest = op.Constant(value=float32(1.0)) - share
        index = op.Cast(low, to=7)
        both = op.Concat(index, op.Min(index + one, last), axis=1)  # (2, 2, N)
        shares = op.Concat(rest, share, axis=1)  # (2, 2, N)
        rows = op.Gather(both, op.Constant(value_int=0)) * op.Constant(value_int=side)  # (2, N)
        middle, end = op.Constant(value_ints=[1]), op.Constant(value_ints=[3])
        corners = op.Unsqueeze(rows, middle) + op.Gather(both, one)  # (2, 2, N)
        down = op.Unsqueeze(op.Gather(shares, op.Constant(value_int=0)), middle)  # (2, 1, N)
        weights = op.CastLike(op.Unsqueeze(down * op.Gather(shares, one), end), table)  # (2, 2, N, 1)
        every = op.Gather(table, corners) * weights  # (2, 2, N, W)
        summed = op.ReduceSum(every, op.Constant(value_ints=[0, 1]), keepdims=0)
        position = op.Unsqueeze(summed, op.Constant(value_ints=[0]))
        return position

    return grid_positions
