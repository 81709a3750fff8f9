"""Images in tiles of a canvas of a similar shape, padded below and on the right (Meta 2024, Llama 3.2)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from txexport.contracts.names import ASPECT_RATIO_IDS, ASPECT_RATIO_MASK, PIXEL_VALUES
from txexport.contracts.tile_grid import grids_up_to
from txexport.errors import UnsupportedError, shown
from txexport.runtime.preprocessing.image_resizing import resized_image
from txexport.runtime.preprocessing.image_tiles import MOST_PIXELS, MOST_TILES, Tiles

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class PaddedTiles:
    """The side of tiles in pixels, and the most that an image has."""

    side: int
    most: int

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of tiles of the canvas on which an image is scaled least, up if it can be.

        Of equal ones, that of the least area.
        """
        scales = {
            grid: min(grid[0] * self.side / height, grid[1] * self.side / width)
            for grid in grids_up_to(self.most)
        }
        larger = [scale for scale in scales.values() if scale >= 1]
        best = min(larger) if larger else max(scales.values())
        return min((grid for grid in scales if scales[grid] == best), key=math.prod)

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of an image on its canvas: as they are if they fit, but a tile's side or more."""
        high, wide = (count * self.side for count in self.grid(height, width))
        target_height, target_width = max(self.side, min(height, high)), max(self.side, min(width, wide))
        down, across = target_height / height, target_width / width
        if across < down:
            return min(math.floor(height * across) or 1, target_height), target_width
        return target_height, min(math.floor(width * down) or 1, target_width)


def padded_tiles_of(options: Mapping[str, Any]) -> PaddedTiles:
    """The tiles in a processor's settings. Raises UnsupportedError for other values."""
    size, most = options["size"], options["max_image_tiles"]
    sides = (size.get("height"), size.get("width")) if isinstance(size, Mapping) else (None, None)
    side = sides[0]
    if type(side) is not int or sides[1] != side or not 1 <= side <= MOST_PIXELS:
        raise UnsupportedError(
            f"image processor: size {shown(size)} is not supported; expected one height and width of at most "
            f"{MOST_PIXELS:,}"
        )
    if type(most) is not int or not 1 <= most <= MOST_TILES:
        raise UnsupportedError(
            f"image processor: max_image_tiles {shown(most)} is not supported; expected 1 to {MOST_TILES}"
        )
    if not (options["do_resize"] is True and options["do_pad"] is True):
        raise UnsupportedError(
            "image processor: do_resize and do_pad must be true, as MllamaImageProcessor's"
        )
    return PaddedTiles(side, most)


def padded_tiles(image: "Image", size: PaddedTiles, resample: int) -> tuple[list[np.ndarray], int, int]:
    """The tiles (H,W,3) uint8 of an image, row by row, and their rows and columns."""
    rows, columns = size.grid(image.height, image.width)
    pixels = np.asarray(resized_image(image, *size.resized(image.height, image.width), resample))
    canvas = np.zeros((rows * size.side, columns * size.side, 3), np.uint8)
    canvas[: pixels.shape[0], : pixels.shape[1]] = pixels
    apart = canvas.reshape(rows, size.side, columns, size.side, 3).swapaxes(1, 2)
    return [*apart.reshape(-1, size.side, size.side, 3)], rows, columns


def of_images(images: Sequence[Tiles], size: PaddedTiles) -> dict[str, np.ndarray]:
    """The tiles (I,T,3,H,W) of images, padded with zeros, their aspect ratios (I), and masks (I,T)."""
    values = np.zeros((len(images), size.most, *images[0].values.shape[1:]), np.float32)
    for row, one in zip(values, images, strict=True):
        row[: len(one.values)] = one.values
    grids, counts = grids_up_to(size.most), np.array([len(one.values) for one in images])
    return {
        PIXEL_VALUES: values,
        ASPECT_RATIO_IDS: np.array([1 + grids.index((one.rows, one.columns)) for one in images]),
        ASPECT_RATIO_MASK: (np.arange(size.most) < counts[:, None]).astype(np.int64),
    }
