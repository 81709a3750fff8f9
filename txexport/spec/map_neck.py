"""Maps of several stages of an image encoder, each projected to one width."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class MapNeckSpec:
    """Maps of stages, from the finest on, of `sizes` numbers, projected to `size` (Lin et al. 2017, 3).

    To the map of a stage in `top_down`, that of the next stage is added, each vector four times. The first
    three are returned: the finest two projected again, to an eighth and a quarter of `size`, and the third
    with a learned vector added, which stands for no memory of other images (Ravi et al. 2024, 4).
    """

    sizes: tuple[int, ...]
    size: int
    top_down: tuple[int, ...]

    maps: ClassVar[int] = 3

    def __post_init__(self) -> None:
        positive(self, "size")
        if len(self.sizes) < self.maps or min(self.sizes) < 1:
            raise SpecError(f"MapNeckSpec: sizes are {self.sizes}, expected {self.maps} or more widths")
        if self.size % 8:
            raise SpecError(f"MapNeckSpec: size is {self.size}, expected a multiple of 8")
        last = len(self.sizes) - 1
        if not {*range(self.maps - 1, last)} <= {*self.top_down} <= {*range(last)}:
            raise SpecError(
                f"MapNeckSpec: top_down is {self.top_down} for {len(self.sizes)} stages; expected those from "
                f"{self.maps - 1} to {last - 1}, and maybe finer ones"
            )

    @property
    def narrow(self) -> tuple[int, int]:
        """The widths of the finest two maps."""
        return self.size // 8, self.size // 4
