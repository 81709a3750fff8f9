"""Integers of a few bits packed in words."""

import numpy as np


def unpacked(words: np.ndarray, bits: int) -> np.ndarray:
    """words (rows,n) int32 -> the integers of `bits` bits in them, uint8 (rows, n*32/bits).

    A row's words are one string of bits, the lowest first, and so are its integers: of 3 bits, the eleventh
    has two bits in the first word and one in the second.
    """
    octets = np.ascontiguousarray(words).view(np.uint8)
    if bits == 8:
        return octets
    if bits == 3:
        return _of_three(octets)
    integers = np.empty((len(octets), octets.shape[1] * 8 // bits), np.uint8)
    for place in range(8 // bits):
        integers[:, place :: 8 // bits] = octets >> bits * place & (1 << bits) - 1
    return integers


def _of_three(octets: np.ndarray) -> np.ndarray:
    """Eight integers of 3 bits from each three bytes."""
    low, middle, high = (octets[:, i::3].astype(np.uint32) for i in range(3))
    together = low | middle << 8 | high << 16
    integers = np.empty((len(octets), together.shape[1] * 8), np.uint8)
    for place in range(8):
        integers[:, place::8] = together >> 3 * place & 7
    return integers
