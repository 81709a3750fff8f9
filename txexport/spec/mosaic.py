"""Tiles of an image of any size, put together to one map of vectors."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class MosaicSpec:
    """An image as a whole and in tiles on a canvas (Liu et al. 2024, LLaVA-NeXT).

    Each tile, of `tile` pixels a side, becomes `side` by `side` vectors. Those of all tiles are one map,
    without the padding around the image, and a learned vector ends each row; the whole image's come first.
    The canvas is one of `canvases`, heights and widths in pixels. With `most`, a map of more vectors than
    those of `most` tiles is reduced, and an image that is not alone in its prompt is one tile (Li et al.
    2024, 3.2).
    """

    tile: int
    side: int
    canvases: tuple[tuple[int, int], ...]
    most: int | None = None

    def __post_init__(self) -> None:
        positive(self, "tile", "side", *(() if self.most is None else ("most",)))
        if not self.canvases or any(edge < 1 or edge % self.tile for one in self.canvases for edge in one):
            raise SpecError(f"MosaicSpec: canvases are {self.canvases}, expected multiples of {self.tile}")
