"""Images of odd sizes, for comparisons with the pipelines of transformers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image


def write_photographs(folder: Path, sizes: Sequence[tuple[int, int]]) -> list[str]:
    """Write a smooth random image of each (height, width); returns the files."""
    rng = np.random.default_rng(5)
    paths = [folder / f"{number}.png" for number in range(len(sizes))]
    for path, (height, width) in zip(paths, sizes, strict=True):
        coarse = Image.fromarray(rng.integers(0, 256, (5, 4, 3), np.uint8))
        coarse.resize((width, height)).save(path)
    return [str(path) for path in paths]
