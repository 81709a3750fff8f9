"""Frames of a sound, projected."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec

FRAMES = 500  # that costs are counted for: ten seconds


@dataclass(frozen=True)
class FramesSpec:
    """Frames of `feature_size` numbers: `norm`, and a projection to `hidden_size`."""

    hidden_size: int
    feature_size: int
    norm: NormSpec

    masked: ClassVar[bool] = True
    counted: ClassVar[tuple[tuple[int, int], ...]] = ()  # a vector for every frame

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "feature_size")
        if self.norm.size != self.feature_size:
            raise SpecError(f"FramesSpec: norm is {self.norm.size} wide, the frames {self.feature_size}")

    @property
    def length(self) -> int:
        """The number of vectors of a sound of `shape`."""
        return FRAMES

    @property
    def shape(self) -> tuple[int, ...]:
        """Frames and numbers of the sound that costs are counted for."""
        return FRAMES, self.feature_size
