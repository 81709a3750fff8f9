"""Rows, columns and masks of packed patches: those of all images, one behind another."""

import torch
from torch import Tensor


def patch_places(merged: int, grids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """grids (I,3) of frames, rows and columns -> of each of the N patches in order three numbers.

    Row and column (2,1,N), the number of the first patch of its image, or of its frame (N), and the columns
    of that (N). An image has squares of `merged` by `merged` neighbours, row by row (Wang et al. 2024, 2.1).
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
    return coordinates, index - within, wide


def window_mask(window: int | None, coordinates: Tensor, first: Tensor, wide: Tensor) -> Tensor:
    """As `patch_places` gives them -> mask (1,1,N,N): patches of one image, or of one square of it.

    A square has `window` rows and columns, and fewer at the end of an image (Bai et al. 2025, 2.1.1).
    """
    group = first  # (N): of patches that attend to each other
    if window is not None:
        row, column = (coordinates[:, 0] // window).unbind(0)
        group = first + row * wide + column
    mask = (group[:, None] == group)[None, None]
    return mask
