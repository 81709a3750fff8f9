"""Rows, columns and masks of packed patches: those of all images, one behind another."""

import torch
from torch import Tensor


def patch_places(merged: int, grids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """grids (I,3) of frames, rows and columns -> numbers of each of the N patches in order.

    Row and column (2,1,N), the rows and columns of its image (2,1,N), and the number of the first patch of
    that, or of its frame (N). An image has squares of `merged` by `merged` neighbours, row by row (Wang et
    al. 2024, 2.1).
    """
    frames, rows, columns = grids.unbind(1)  # (I) each
    counts = frames * rows * columns
    image = torch.repeat_interleave(torch.arange(len(grids), device=grids.device), counts)  # (N)
    index = torch.arange(len(image), device=grids.device)
    within = (index - (counts.cumsum(0) - counts)[image]) % (rows * columns)[image]
    wide = columns[image]
    square, inner = within // merged**2, within % merged**2
    row = square // (wide // merged) * merged + inner // merged
    column = square % (wide // merged) * merged + inner % merged
    coordinates = torch.stack([row, column])[:, None]  # (2, 1, N)
    sides = torch.stack([rows[image], wide])[:, None]  # (2, 1, N)
    return coordinates, sides, index - within


def window_mask(window: int | None, coordinates: Tensor, sides: Tensor, first: Tensor) -> Tensor:
    """As `patch_places` gives them -> mask (1,1,N,N): patches of one image, or of one square of it.

    A square has `window` rows and columns, and fewer at the end of an image (Bai et al. 2025, 2.1.1).
    """
    group = first  # (N): of patches that attend to each other
    if window is not None:
        row, column = (coordinates[:, 0] // window).unbind(0)
        group = first + row * sides[1, 0] + column
    mask = (group[:, None] == group)[None, None]
    return mask


def grid_positions(side: int, coordinates: Tensor, sides: Tensor, table: Tensor) -> Tensor:
    """As `patch_places` gives them, and a table of positions (side*side,W) -> those of patches (1,N,W).

    The first and the last row of the table are those of an image, whatever its size, and rows between are
    interpolated linearly; so are columns.
    """
    kind = torch.get_default_dtype()
    where = coordinates.to(kind) * (side - 1) / (sides - 1).clamp(min=1)  # (2, 1, N)
    low = where.floor()
    share, index = where - low, low.long()
    following = (index + 1).clamp(max=side - 1)
    corners = (index, following)
    position = table.new_zeros(1, coordinates.shape[2], table.shape[1])
    for row, down in zip(corners, (1 - share[0], share[0]), strict=True):
        for column, across in zip(corners, (1 - share[1], share[1]), strict=True):
            position = position + table[row[0] * side + column[1]] * (down * across)[..., None]
    return position
