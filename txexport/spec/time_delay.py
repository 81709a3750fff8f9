"""Time-delay layers over a sound, which make a vector of a speaker."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class TimeDelaySpec:
    """The TDNN of x-vectors: time-delay layers over a sound, and their vector (Snyder et al. 2018, 2.1).

    Vectors are projected to the first of the `sizes`. The layer i reads `kernels[i]` vectors, `dilations[i]`
    apart, and outputs `sizes[i]` numbers. Mean and standard deviation over time are projected to
    `vector_size`.
    """

    sizes: tuple[int, ...]
    kernels: tuple[int, ...]
    dilations: tuple[int, ...]
    vector_size: int

    def __post_init__(self) -> None:
        positive(self, "vector_size")
        lists = (self.sizes, self.kernels, self.dilations)
        counts = [len(numbers) for numbers in lists]
        if min(counts) < 1 or len({*counts}) > 1 or min(map(min, lists)) < 1:
            raise SpecError(
                f"TimeDelaySpec: sizes, kernels and dilations are {lists}, expected one of each for every "
                "layer, all 1 or more"
            )

    @property
    def lost(self) -> int:
        """The number of vectors by which the layers' output is shorter than their input."""
        pairs = zip(self.kernels, self.dilations, strict=True)
        return sum((kernel - 1) * dilation for kernel, dilation in pairs)

    @property
    def lost_without_dilation(self) -> int:
        """As `lost`, if no layer had a dilation: the originals count the vectors of padded rows so."""
        return sum(self.kernels) - len(self.kernels)

    @property
    def least(self) -> int:
        """The least number of vectors: a standard deviation needs two outputs."""
        return self.lost + 2
