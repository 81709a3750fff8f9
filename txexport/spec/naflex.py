"""Patches of images of any shape, as many of them as a batch has room for."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive

PATCHES = 2048  # the number for which costs are counted: any number may be read


@dataclass(frozen=True)
class NaflexSpec:
    """Patches of `patch_size` squared pixels, of images of any shape (Tschannen et al. 2025, 2.4.2).

    A row has the patches of one image, row by row, and then padding, which a mask excludes; its shape says
    how many rows and columns they have. Each is projected to a vector, and a table of `side` squared
    positions, interpolated to that shape, is added.
    """

    hidden_size: int
    patch_size: int
    side: int
    channels: int = 3

    masked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "patch_size", "side", "channels")

    @property
    def length(self) -> int:
        """The patches of a row in reports: as many as the table has positions."""
        return self.side**2

    @property
    def numbers(self) -> int:
        """The numbers of a patch."""
        return self.channels * self.patch_size**2

    @property
    def shape(self) -> tuple[int, ...]:
        """Patches, and the numbers of each."""
        return self.length, self.numbers


@dataclass(frozen=True)
class FlattenedPatchesSpec:
    """Patches of `numbers` each after their row and column, which count from 1 (Lee et al. 2023, 2.1).

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
        """The number of patches for which costs are counted."""
        return PATCHES

    @property
    def shape(self) -> tuple[int, ...]:
        """That number of patches, and of each the row, the column and the numbers."""
        return PATCHES, 2 + self.numbers
