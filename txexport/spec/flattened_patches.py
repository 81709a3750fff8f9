"""Patches of an image of any shape, in a row."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive

PATCHES = 2048  # that costs are counted for


@dataclass(frozen=True)
class FlattenedPatchesSpec:
    """Patches of `numbers` each, behind their row and column, which count from 1 (Lee et al. 2023, 2.1).

    A patch is projected to `hidden_size`; learned vectors of its row and of its column, below `positions`,
    are added. A mask excludes padding.
    """

    hidden_size: int
    numbers: int
    positions: int

    masked: ClassVar[bool] = True
    counted: ClassVar[tuple[tuple[int, int], ...]] = ()  # a vector for every patch

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "numbers")
        if self.positions < 2:
            raise SpecError(
                f"FlattenedPatchesSpec: positions is {self.positions}, expected 2 or more: the first is of "
                "padding"
            )

    @property
    def length(self) -> int:
        """The patches of an image of `shape`."""
        return PATCHES

    @property
    def shape(self) -> tuple[int, ...]:
        """Patches of the image that costs are counted for, and the numbers of each behind its place."""
        return PATCHES, 2 + self.numbers
