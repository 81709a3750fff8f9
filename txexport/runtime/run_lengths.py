"""Masks as the lengths of their runs, the uncompressed form of the COCO data set."""

from typing import TypedDict

import numpy as np


class RunLengths(TypedDict):
    """Height and width of a mask, and the lengths of runs down its columns; the first is of unset pixels."""

    size: list[int]
    counts: list[int]


def run_lengths(mask: np.ndarray) -> RunLengths:
    """The runs of a mask (H,W) of booleans; the first, of unset pixels, may be 0 long."""
    height, width = mask.shape
    pixels = np.ascontiguousarray(mask.T).reshape(-1)  # column by column
    changes = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    edges = np.concatenate([[0], changes, [pixels.size]]) if pixels.size else np.zeros(1, np.int64)
    counts = np.diff(edges).tolist()
    return {"size": [height, width], "counts": [0, *counts] if pixels.size and pixels[0] else counts}
