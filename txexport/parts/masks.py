"""The masks of the seeded batches of an encoder."""

from collections.abc import Iterator

import numpy as np

MANY = [3, 8, 1, 5, 12, 2, 7, 4, 6]  # lengths of the largest batch


def seeded_masks(longest: int, random: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """The masks (B,S) of the seeded cases, by name."""
    for name, lengths, side in [
        ("one token", [1], "right"),
        ("one row of odd length", [7], "right"),
        ("two equal rows", [6, 6], "right"),
        ("three ragged rows, right padding", [5, 11, 1], "right"),
        ("three ragged rows, left padding", [5, 11, 1], "left"),
        ("three rows, scattered padding", [12, 12, 12], "scattered"),
        ("longest and short row", [longest, 3], "right"),
        ("nine ragged rows", MANY, "right"),
    ]:
        lengths = [min(length, longest) for length in lengths]
        shape = (len(lengths), max(lengths))
        positions = np.arange(shape[1])
        filled = np.array(lengths)[:, None]
        mask = positions < filled if side != "left" else positions >= shape[1] - filled
        if side == "scattered":
            mask = random.random(shape) < 0.6
            mask[:, random.integers(shape[1])] = True
        yield name, mask
