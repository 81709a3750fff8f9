"""A matrix as integers in blocks along its inputs, with a scale for each block."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Blocks:
    """A matrix (out,in) in blocks along its inputs; each block has a scale for every output.

    number = scale * (integer - zero) - minimum. `integers` (out,in) are int8 or uint8, of which `bits` bits
    are used. `scales` (out,blocks) and `minima` (out,blocks) are float32; `zeros` (out,blocks) are integers
    of the same range; None is 0. Blocks have equal length, except that the last one may be shorter. `order`
    (in) is the input that each column multiplies, None for the columns' own order.
    """

    integers: np.ndarray
    bits: int
    scales: np.ndarray
    block: int  # inputs
    zeros: np.ndarray | None = None
    minima: np.ndarray | None = None
    order: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(out, in)."""
        return self.integers.shape[0], self.integers.shape[1]

    def outputs(self, which: slice | np.ndarray) -> "Blocks":
        """The rows of the outputs `which`, in that order."""
        zeros, minima = (None if one is None else one[which] for one in (self.zeros, self.minima))
        return replace(
            self, integers=self.integers[which], scales=self.scales[which], zeros=zeros, minima=minima
        )

    def numbers(self) -> np.ndarray:
        """The dequantised float32 matrix (out,in) in the original order of inputs, products rounded once."""
        inputs = self.integers.shape[1]

        def spread(of_blocks: np.ndarray) -> np.ndarray:
            return np.repeat(of_blocks, self.block, axis=1)[:, :inputs]

        values = self.integers.astype(np.float32)
        if self.zeros is not None:
            values -= spread(self.zeros.astype(np.float32))
        values *= spread(self.scales)
        if self.minima is not None:
            values -= spread(self.minima)
        if self.order is None:
            return values
        return values.take(np.argsort(self.order), axis=1)
