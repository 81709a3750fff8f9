"""Keys and values of an image, which a decoder attends to."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class ImageKeys:
    """Keys and values (K,N,H) of an image by the names of a step's inputs, and the number of its tiles."""

    arrays: Mapping[str, np.ndarray]
    tiles: int

    @property
    def nbytes(self) -> int:
        """Their size in bytes."""
        return sum(array.nbytes for array in self.arrays.values())
