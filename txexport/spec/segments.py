"""The label of every pixel of an image."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.convolution_module import BatchNormSpec


@dataclass(frozen=True)
class SegmentsSpec:
    """Scores of labels from the maps of all stages (Xie et al. 2021, 3.2).

    Each map, of `sizes` channels, is projected to `hidden_size` ones and interpolated to the finest. One
    projection of all of them side by side, the coarsest first, is normalised by `norm`, and after a ReLU
    projected to the scores, which are as many as the finest map has places.
    """

    sizes: tuple[int, ...]
    hidden_size: int
    norm: BatchNormSpec

    def __post_init__(self) -> None:
        positive(self, "hidden_size")
        if not self.sizes or min(self.sizes) < 1:
            raise SpecError(f"SegmentsSpec: sizes are {self.sizes}, expected one or more of 1 or more")
        if self.norm.size != self.hidden_size:
            raise SpecError(f"SegmentsSpec: norm is {self.norm.size} wide, expected {self.hidden_size}")
