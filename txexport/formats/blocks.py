"""A matrix as integers in blocks of its inputs, each with a scale."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Blocks:
    """A matrix (out,in) of which each block of inputs has, for every output, a scale of its own.

    number = scale * (integer - zero) - minimum. `integers` (out,in) are int8 or uint8, of which `bits` bits
    are used. `scales` (out,blocks) are float32, and so are `minima`; `zeros` (out,blocks) are integers of the
    same range; None is 0. Blocks are equally long: the last may be filled with inputs that are not there,
    which `integers` has not. `order` (in) says which input a column multiplies, None where it is its own.
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
        """The same of some outputs, in their order."""
        zeros, minima = (None if one is None else one[which] for one in (self.zeros, self.minima))
        return replace(
            self, integers=self.integers[which], scales=self.scales[which], zeros=zeros, minima=minima
        )

    def numbers(self) -> np.ndarray:
        """The dequantised float32 matrix (out,in), inputs in their own order, each product rounded once."""
        inputs = self.integers.shape[1]

        def spread(of_blocks: np.ndarray) -> np.ndarray:
            return np.repeat(of_blocks, self.block, axis=1)[:, :inputs]

        whole = self.integers.astype(np.float32)
        if self.zeros is not None:
            whole -= spread(self.zeros.astype(np.float32))
        whole *= spread(self.scales)
        if self.minima is not None:
            whole -= spread(self.minima)
        if self.order is None:
            return whole
        return whole.take(np.argsort(self.order), axis=1)
