"""Tables of sinusoidal positions, (rows, width), as families lay them out."""

import math

import numpy as np


def halves(shape: tuple[int, ...]) -> np.ndarray:
    """Sines of all frequencies, then cosines (Vaswani et al. 2017, 3.5, in the order of Marian)."""
    places, width = np.arange(shape[0])[:, None], shape[1]
    angles = places / np.power(10000.0, 2 * (np.arange(width) // 2) / width)
    return np.concatenate([np.sin(angles[:, ::2]), np.cos(angles[:, 1::2])], axis=1).astype(np.float32)


def stretched(shape: tuple[int, ...], padding: int) -> np.ndarray:
    """The same with the last frequency at 1/10000 exactly, and zeros for `padding` (as tensor2tensor has it).

    In float32 throughout, as the original: its rounding of an angle is part of the model.
    """
    half = shape[1] // 2
    steps = np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / (half - 1))
    frequencies = np.exp(steps.astype(np.float64)).astype(np.float32)
    angles = (np.arange(shape[0], dtype=np.float32)[:, None] * frequencies).astype(np.float64)
    table = np.zeros(shape, np.float32)
    table[:, :half], table[:, half : 2 * half] = np.sin(angles), np.cos(angles)
    table[padding] = 0
    return table
