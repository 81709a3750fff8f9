"""ggml's tensor types: decoding of the bytes of a block.

Numbers are integers with a scale for each block, in some types also a minimum: see Blocks. Sources:
ggml-common.h for layouts, ggml-quants.c (`dequantize_row_*`) for values; names are theirs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from txexport.formats.blocks import Blocks

IQ4_LEVELS = np.array((-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113), np.int8)


@dataclass(frozen=True)
class TensorType:
    """A tensor type by its name: `elements` numbers take `nbytes` bytes.

    `unpack` decodes blocks of bytes (rows, blocks, nbytes); if it is None, the numbers are of `dtype`, with
    bfloat16 as the upper half of a float32.
    """

    name: str
    elements: int
    nbytes: int
    unpack: Callable[[np.ndarray], Blocks] | None = None
    dtype: str = ""

    def blocks(self, rows: np.ndarray) -> Blocks | None:
        """rows (out, bytes) -> their integers and scales; None for a type without integers."""
        if self.unpack is None:
            return None
        with np.errstate(invalid="ignore", over="ignore"):  # scales may be infinite
            return self.unpack(rows.reshape(len(rows), -1, self.nbytes))

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """rows (out, bytes) -> float32 (out, in), each product exact and each difference rounded once."""
        if (blocks := self.blocks(rows)) is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                return blocks.numbers()
        numbers = rows.view(self.dtype)
        if self.name == "BF16":
            return (numbers.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite
            return numbers.astype(np.float32)


def _fields(data: np.ndarray, width: int, *shifts: int) -> np.ndarray:
    """data (rows, blocks, bytes) -> (rows, blocks, fields): fields of each `width` bytes at each shift."""
    grouped = data.reshape(*data.shape[:2], -1, 1, width)
    return (grouped >> np.array(shifts, np.uint8)[:, None]).reshape(*data.shape[:2], -1)


def _nibbles(data: np.ndarray, width: int) -> np.ndarray:
    """The low halves of every `width` bytes, then the high ones."""
    return _fields(data, width, 0, 4) & 15


def _half(data: np.ndarray, place: int) -> np.ndarray:
    """The float16 at byte `place` of each block: float32 (rows, blocks)."""
    return np.ascontiguousarray(data[..., place : place + 2]).view("<f2")[..., 0].astype(np.float32)


def _flat(numbers: np.ndarray) -> np.ndarray:
    return numbers.reshape(len(numbers), -1)


def _q4_0(data: np.ndarray) -> Blocks:
    return Blocks(_flat(_nibbles(data[..., 2:], 16).astype(np.int8) - np.int8(8)), 4, _half(data, 0), 32)


def _q4_1(data: np.ndarray) -> Blocks:
    return Blocks(_flat(_nibbles(data[..., 4:], 16)), 4, _half(data, 0), 32, minima=-_half(data, 2))


def _fifth(data: np.ndarray) -> np.ndarray:
    """The fifth bits of 32 numbers: bit i of four bytes belongs to number i."""
    return np.unpackbits(data, axis=-1, bitorder="little") << 4


def _q5_0(data: np.ndarray) -> Blocks:
    integers = _nibbles(data[..., 6:], 16) | _fifth(data[..., 2:6])
    return Blocks(_flat(integers.astype(np.int8) - np.int8(16)), 5, _half(data, 0), 32)


def _q5_1(data: np.ndarray) -> Blocks:
    integers = _nibbles(data[..., 8:], 16) | _fifth(data[..., 4:8])
    return Blocks(_flat(integers), 5, _half(data, 0), 32, minima=-_half(data, 2))


def _q8_0(data: np.ndarray) -> Blocks:
    return Blocks(_flat(data[..., 2:].view(np.int8)), 8, _half(data, 0), 32)


def _q8_k(data: np.ndarray) -> Blocks:
    """q8_K; the sums of integers after the numbers are redundant."""
    scales = np.ascontiguousarray(data[..., :4]).view("<f4")[..., 0]
    return Blocks(_flat(data[..., 4:260].view(np.int8)), 8, scales, 256)


def _q2_k(data: np.ndarray) -> Blocks:
    packed = data[..., :16]  # four bits of a scale, then four of a minimum
    scales, minima = _half(data, 80)[..., None] * (packed & 15), _half(data, 82)[..., None] * (packed >> 4)
    integers = _fields(data[..., 16:80], 32, 0, 2, 4, 6) & 3
    return Blocks(_flat(integers), 2, _flat(scales), 16, minima=_flat(minima))


def _q3_k(data: np.ndarray) -> Blocks:
    low, high = _nibbles(data[..., 96:104], 8), _fields(data[..., 104:108], 4, 0, 2, 4, 6) & 3
    scales = (low | high << 4).astype(np.int8) - np.int8(32)
    kept = _fields(data[..., :32], 32, *range(8)) & 1  # a clear bit subtracts 4
    integers = (_fields(data[..., 32:96], 32, 0, 2, 4, 6) & 3 | kept << 2).astype(np.int8) - np.int8(4)
    return Blocks(_flat(integers), 3, _flat(_half(data, 108)[..., None] * scales), 16)


def _scales_and_minima(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scales and minima of blocks that begin with d, dmin, eight six-bit pairs: (rows, blocks * 8) each."""
    first, second, last = data[..., 4:8], data[..., 8:12], data[..., 12:16]
    scales = np.concatenate([first & 63, last & 15 | first >> 6 << 4], axis=-1)
    minima = np.concatenate([second & 63, last >> 4 | second >> 6 << 4], axis=-1)
    return _flat(_half(data, 0)[..., None] * scales), _flat(_half(data, 2)[..., None] * minima)


def _q4_k(data: np.ndarray) -> Blocks:
    scales, minima = _scales_and_minima(data)
    return Blocks(_flat(_nibbles(data[..., 16:], 32)), 4, scales, 32, minima=minima)


def _q5_k(data: np.ndarray) -> Blocks:
    scales, minima = _scales_and_minima(data)
    high = _fields(data[..., 16:48], 32, *range(8)) & 1
    return Blocks(_flat(_nibbles(data[..., 48:], 32) | high << 4), 5, scales, 32, minima=minima)


def _q6_k(data: np.ndarray) -> Blocks:
    high = _fields(data[..., 128:192], 32, 0, 2, 4, 6) & 3
    integers = (_nibbles(data[..., :128], 64) | high << 4).astype(np.int8) - np.int8(32)
    scales = _half(data, 208)[..., None] * data[..., 192:208].view(np.int8)
    return Blocks(_flat(integers), 6, _flat(scales), 16)


def _iq4_nl(data: np.ndarray) -> Blocks:
    return Blocks(_flat(IQ4_LEVELS[_nibbles(data[..., 2:], 16)]), 8, _half(data, 0), 32)


def _iq4_xs(data: np.ndarray) -> Blocks:
    low = _fields(data[..., 4:8], 1, 0, 4) & 15
    high = _fields(data[..., 2:4], 1, 0, 2, 4, 6) & 3
    scales = (low | high << 4).astype(np.int8) - np.int8(32)
    levels = IQ4_LEVELS[_nibbles(data[..., 8:], 16)]
    return Blocks(_flat(levels), 8, _flat(_half(data, 0)[..., None] * scales), 32)


TYPES = {
    0: TensorType("F32", 1, 4, dtype="<f4"),
    1: TensorType("F16", 1, 2, dtype="<f2"),
    2: TensorType("Q4_0", 32, 18, _q4_0),
    3: TensorType("Q4_1", 32, 20, _q4_1),
    6: TensorType("Q5_0", 32, 22, _q5_0),
    7: TensorType("Q5_1", 32, 24, _q5_1),
    8: TensorType("Q8_0", 32, 34, _q8_0),
    10: TensorType("Q2_K", 256, 84, _q2_k),
    11: TensorType("Q3_K", 256, 110, _q3_k),
    12: TensorType("Q4_K", 256, 144, _q4_k),
    13: TensorType("Q5_K", 256, 176, _q5_k),
    14: TensorType("Q6_K", 256, 210, _q6_k),
    15: TensorType("Q8_K", 256, 292, _q8_k),
    20: TensorType("IQ4_NL", 32, 18, _iq4_nl),
    23: TensorType("IQ4_XS", 256, 136, _iq4_xs),
    28: TensorType("F64", 1, 8, dtype="<f8"),
    30: TensorType("BF16", 1, 2, dtype="<u2"),
}

# Unsupported types, by name.
UNREAD = {
    **{9: "Q8_1", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S"},
    **{24: "I8", 25: "I16", 26: "I32", 27: "I64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"},
    **{40: "NVFP4"},
}
