"""Floating-point numbers of 8 bits and fewer, by code."""

import numpy as np


def _e4m3() -> np.ndarray:
    """Sign, four bits of exponent (less 7), three of fraction; the last code of each sign is NaN."""
    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    size = np.where(exponent > 0, np.ldexp(8 + fraction, exponent - 10), np.ldexp(fraction, -9))
    size = np.where(codes & 127 == 127, np.nan, size)
    return np.where(codes < 128, size, -size).astype(np.float32)


E4M3 = _e4m3()
E5M2 = (
    (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)
)  # float16 without its low byte
E8M0 = np.append(np.ldexp(np.float32(1), np.arange(255) - 127), np.float32(np.nan)).astype(np.float32)
LEVELS = {"F8_E4M3": E4M3, "F8_E5M2": E5M2}
