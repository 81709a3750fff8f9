"""A matrix that a checkpoint stores as integers, or as codes of a few values, with scales."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from txexport.checkpoints.stored import CHUNK
from txexport.formats.blocks import Blocks


@dataclass(frozen=True)
class Codes:
    """A matrix (out,in) of a few distinct values; each block of inputs has a scale for every output.

    number = scale * levels[code]. `codes` (out,in) are uint8, `levels` float32 by code, and `scales`
    (out,blocks) float32; the last block may be short.
    """

    codes: np.ndarray
    levels: np.ndarray
    scales: np.ndarray
    block: int

    def outputs(self, which: slice) -> "Codes":
        """The rows of some outputs."""
        return replace(self, codes=self.codes[which], scales=self.scales[which])

    def numbers(self) -> np.ndarray:
        """The dequantised float32 matrix (out,in), each product rounded once."""
        numbers = self.levels.take(self.codes)
        numbers *= np.repeat(self.scales, self.block, axis=1)[:, : numbers.shape[1]]
        return numbers


@dataclass(frozen=True)
class Matrix:
    """A matrix (out,in) of a quantised checkpoint, not read yet, as a `Stored` tensor is.

    `dtype` names its storage and `nbytes` is the size of all its tensors. `load` reads them, and raises
    CheckpointError if they contradict each other. With `rounds`, the checkpoint requires activations to be
    rounded to int8, for each token by its own largest number.
    """

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    load: Callable[[], Blocks | Codes]
    rounds: bool = False

    def rows(self) -> Iterator[np.ndarray]:
        """Yield float32 rows, a few megabytes at a time."""
        matrix = self.load()
        step = max(1, CHUNK // (4 * self.shape[1]))
        for first in range(0, self.shape[0], step):
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # numbers that are not finite are reported by the caller
                numbers = matrix.outputs(slice(first, first + step)).numbers()
            yield numbers

    def blocks(self) -> Blocks | None:
        """Its own integers and scales; None if it has codes of floats."""
        matrix = self.load()
        return matrix if isinstance(matrix, Blocks) else None


@dataclass(frozen=True)
class Stack:
    """Matrices of one shape, one for each expert; a float checkpoint has one tensor (experts,out,in)."""

    matrices: tuple[Matrix, ...]

    rounds: ClassVar[bool] = False

    @property
    def dtype(self) -> str:
        """See Matrix."""
        return self.matrices[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """(experts,out,in)."""
        return len(self.matrices), *self.matrices[0].shape

    @property
    def nbytes(self) -> int:
        """See Matrix."""
        return sum(matrix.nbytes for matrix in self.matrices)

    def at(self, number: int) -> Matrix:
        """The matrix of one expert."""
        return self.matrices[number]

    def rows(self) -> Iterator[np.ndarray]:
        """Yield float32 blocks, one expert's (1,out,in) at a time."""
        for matrix in self.matrices:
            yield np.concatenate(list(matrix.rows()))[None]

    def blocks(self) -> None:
        """None: each expert has its own integers."""
