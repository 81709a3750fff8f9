"""A picture of the depths of an image."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

# Colours from the least depth to the greatest, evenly spaced: dark violet, magenta, orange, pale yellow.
COLOURS = np.array([[13, 8, 60], [125, 25, 130], [225, 80, 70], [252, 165, 50], [252, 250, 190]], np.float64)


def shaded(depth: np.ndarray) -> "Image":
    """An RGB image of depths (H,W) uint8, as `depth` returns them: the greater, the brighter."""
    from PIL import Image

    levels = np.arange(256) / 255 * (len(COLOURS) - 1)
    anchors = np.arange(len(COLOURS))
    palette = np.stack([np.interp(levels, anchors, band) for band in COLOURS.T], axis=1)  # (256, 3)
    return Image.fromarray(palette.round().astype(np.uint8)[depth])
