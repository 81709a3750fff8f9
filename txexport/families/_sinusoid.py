"""Tables of sinusoidal positions, (rows, width), as families lay them out."""

import numpy as np

from txexport.families._elementary import exp, log, power, sin_cos


def halves(shape: tuple[int, ...]) -> np.ndarray:
    """Sines of all frequencies, then cosines (Vaswani et al. 2017, 3.5, in Marian's order)."""
    rows, width = shape
    periods = np.array([power(10000.0, 2 * i / width) for i in range((width + 1) // 2)])
    sines, cosines = sin_cos(np.arange(rows)[:, None] / periods)
    return np.concatenate([sines, cosines[:, : width // 2]], axis=1).astype(np.float32)


def stretched(shape: tuple[int, ...], padding: int) -> np.ndarray:
    """As `halves`, with the last frequency exactly 1/10000, and zeros for `padding`, as in tensor2tensor.

    In float32 throughout, as the original: its rounding of an angle is part of the model.
    """
    half = shape[1] // 2
    steps = np.arange(half, dtype=np.float32) * np.float32(-log(10000) / (half - 1))
    frequencies = np.array([exp(step) for step in steps.tolist()], np.float32)
    angles = (np.arange(shape[0], dtype=np.float32)[:, None] * frequencies).astype(np.float64)
    table = np.zeros(shape, np.float32)
    table[:, :half], table[:, half : 2 * half] = sin_cos(angles)
    table[padding] = 0
    return table
