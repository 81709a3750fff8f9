"""Images as the maps of several stages of a residual network."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.resnet import REDUCTION, STEM_STRIDE


@dataclass(frozen=True)
class ResNetLevelsSpec:
    """The maps of the last `levels` stages of a residual network, each projected to `hidden_size` numbers.

    Three convolutions of 3 by 3 pixels to `stem` channels, the first of them with a stride of 2, and the
    largest of 3 by 3; then stages of `depths` layers and `sizes` channels as in ResNetSpec, but a layer with
    a stride halves its residual by means of 2 by 2 places (He et al. 2019, 4.1). The first of a stage of
    layers without `bottleneck` always projects its residual. A projection has a batch norm behind it. Images
    may have any height and width that `stride` divides; `image_size` is that of reports and cases.
    """

    hidden_size: int
    depths: tuple[int, ...]
    sizes: tuple[int, ...]
    levels: int = 3
    stem: int = 64
    bottleneck: bool = True
    eps: float = 1e-5
    channels: int = 3
    image_size: tuple[int, int] = (640, 640)

    masked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "levels", "stem", "channels", "eps")
        if len(self.depths) != len(self.sizes) or not self.depths or min(*self.depths, *self.sizes) < 1:
            raise SpecError(
                f"ResNetLevelsSpec: depths {self.depths} and sizes {self.sizes}; expected as many of both, "
                "from 1"
            )
        if self.bottleneck and any(size % REDUCTION for size in self.sizes):
            raise SpecError(f"ResNetLevelsSpec: sizes {self.sizes}, expected multiples of {REDUCTION}")
        if self.stem % 2 or not (self.bottleneck or self.stem == self.sizes[0]):
            raise SpecError(
                f"ResNetLevelsSpec: {self.stem} channels of the stem and {self.sizes[0]} of the first stage; "
                "expected an even number, and the same of both without bottleneck"
            )
        if self.levels > len(self.depths):
            raise SpecError(
                f"ResNetLevelsSpec: {self.levels} levels of {len(self.depths)} stages, expected no more"
            )
        if any(side % self.stride for side in self.image_size):
            raise SpecError(
                f"ResNetLevelsSpec: image_size {self.image_size}, expected multiples of {self.stride}"
            )

    @property
    def stride(self) -> int:
        """The pixels of a place of the last map, in each direction."""
        return STEM_STRIDE * 2 ** (len(self.depths) - 1)

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of each level of an image of `image_size`, the finest first."""
        height, width = self.image_size
        strides = [self.stride // 2**number for number in reversed(range(self.levels))]
        return [(height // stride, width // stride) for stride in strides]

    @property
    def length(self) -> int:
        """The number of places of all levels."""
        return sum(rows * columns for rows, columns in self.grids)

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.channels, *self.image_size
