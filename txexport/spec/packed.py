"""Patches of images of any size, of all images in one row."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class PackedSpec:
    """Patches of `patch_size` squared pixels of images of any size in one row (Wang et al. 2024, 2.1).

    Each patch is repeated for `frames` of a video, and projected to a vector. The patches of an image are in
    squares of `merged` by `merged` neighbours, row by row; a grid says how many rows and columns they have.
    Layers rotate by a patch's row and column, and patches of one image attend to each other, in layers with a
    `window` those within the same square of that many patches a side. `bias` is the projection's. A table of
    `side` squared positions is added, interpolated to an image's size, unless that is 0. The graph's input of
    grids is called `grids`, as in other clients.
    """

    hidden_size: int
    patch_size: int
    frames: int = 2
    merged: int = 2
    channels: int = 3
    bias: bool = False
    side: int = 0
    grids: str = "image_grid_thw"

    masked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "patch_size", "frames", "merged", "channels")
        if self.merged > 64 or self.side < 0:
            raise SpecError(
                f"PackedSpec: merged is {self.merged} and side {self.side}, expected up to 64, and 0 or more"
            )

    @property
    def numbers(self) -> int:
        """The numbers of a patch."""
        return self.channels * self.frames * self.patch_size**2

    @property
    def length(self) -> int:
        """The patches of an image in reports: 16 by 16 squares of neighbours."""
        return (16 * self.merged) ** 2

    @property
    def shape(self) -> tuple[int, ...]:
        """Patches of an image in reports, and the numbers of each."""
        return self.length, self.numbers
