"""Crops of an image that overlap, each of them prompted by itself (Kirillov et al. 2023, B)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

NEAR = 20  # pixels from a crop's edge, within which a mask may go on beyond it


@dataclass(frozen=True)
class Crop:
    """A part of an image from `left` and `top`, in pixels, in a layer of crops; layer 0 is the image."""

    left: int
    top: int
    right: int
    bottom: int
    layer: int

    @property
    def edges(self) -> tuple[int, int, int, int]:
        """Left, upper, right and lower edge."""
        return self.left, self.top, self.right, self.bottom

    def cuts(self, box: tuple[int, int, int, int], height: int, width: int) -> bool:
        """Tell whether an edge of a box in the image is near one of the crop that is none of the image."""
        sides = np.array(box)
        near = np.abs(sides - self.edges) <= NEAR
        near_image = np.abs(sides - (0, 0, width, height)) <= NEAR
        return bool((near & ~near_image).any())


def crops(height: int, width: int, layers: int, overlap: float) -> Iterator[Crop]:
    """The image, then in each of `layers` crops of it: 2 a side, 4 a side, and so on.

    In the first layer they overlap by the share `overlap` of the shorter edge, in later ones by less.
    """
    yield Crop(0, 0, width, height, 0)
    for layer in range(1, layers + 1):
        side = 2**layer
        shared = int(overlap * min(height, width) * (2 / side))
        wide, high = (math.ceil((shared * (side - 1) + edge) / side) for edge in (width, height))
        for left in range(0, (wide - shared) * side, wide - shared):
            for top in range(0, (high - shared) * side, high - shared):
                if left < width and top < height:  # of an image of few pixels, some lie beyond it
                    yield Crop(left, top, min(left + wide, width), min(top + high, height), layer)
