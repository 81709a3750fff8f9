"""Images of any size as grids of patches."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class WindowedPositionsSpec:
    """A table of positions of `rows` by `columns`, and one of a window of `window` by `window`.

    The first is interpolated to a grid, the second repeated over it (Bolya et al. 2023, 4).
    """

    rows: int
    columns: int
    window: int

    def __post_init__(self) -> None:
        positive(self, "rows", "columns", "window")


@dataclass(frozen=True)
class PatchGridSpec:
    """Patches of `patch_size` squared pixels, projected and normalised (Liu et al. 2021, 3.1).

    Images may have any size, and are padded by zeros at the bottom and on the right to whole patches.
    `image_size` is height and width in training. If `positioned`, a table of positions for that size is added
    last; it is interpolated for other sizes.

    With a `kernel`, patches overlap (Xie et al. 2021, 3.1): a vector is projected from a square of `kernel`
    pixels around one of every `patch_size` squared, with zeros around the image. `fixed` images have
    `image_size` only; their table may be `windowed`. The edges of others are multiples of `multiple` pixels,
    where a head needs that.
    """

    hidden_size: int
    image_size: tuple[int, int]
    patch_size: int
    norm: NormSpec | None
    channels: int = 3
    positioned: bool = False
    kernel: int | None = None
    fixed: bool = False
    windowed: WindowedPositionsSpec | None = None
    multiple: int = 1

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "patch_size", "channels", "multiple")
        if min(self.image_size) < self.patch_size:
            raise SpecError(f"PatchGridSpec: {self.image_size} pixels hold no patch of {self.patch_size}")
        if self.norm is not None and self.norm.size != self.hidden_size:
            raise SpecError(f"PatchGridSpec: norm is {self.norm.size} wide, patches {self.hidden_size}")
        if self.kernel is not None and (self.kernel % 2 == 0 or self.kernel < self.patch_size):
            raise SpecError(
                f"PatchGridSpec: kernel is {self.kernel} for patches of {self.patch_size}; expected an odd "
                "number, at least as large"
            )
        if self.windowed is not None:
            if not self.fixed or not self.positioned:
                raise SpecError(
                    "PatchGridSpec: windowed positions of images of any size; expected fixed=True"
                )
            if any(side % self.windowed.window for side in self.grid):
                raise SpecError(
                    f"PatchGridSpec: a grid of {self.grid}, windowed positions of {self.windowed.window}; "
                    "expected multiples"
                )

    @property
    def side(self) -> int:
        """The side in pixels of the square that a vector is projected from."""
        return self.kernel or self.patch_size

    @property
    def positions(self) -> int:
        """The number of positions in the table: whole patches of `image_size`."""
        height, width = self.image_size
        return (height // self.patch_size) * (width // self.patch_size)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches of an image of `image_size`, padded."""
        height, width = self.image_size
        return -(-height // self.patch_size), -(-width // self.patch_size)

    @property
    def length(self) -> int:
        """The number of vectors of an image of `image_size`."""
        rows, columns = self.grid
        return rows * columns

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.channels, *self.image_size
