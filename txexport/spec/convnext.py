"""Images as maps of depthwise convolutions and networks, in stages."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec

KERNEL = 7  # the side of the square that a layer convolves
WIDENING = 4  # of channels within a layer's network
MERGED = 2  # rows, or columns, that become one between two stages
EPS = 1e-6  # of all norms, which no setting names
RESPONSE_EPS = 1e-6  # added to the mean response


@dataclass(frozen=True)
class ConvNextSpec:
    """The maps of all stages of a ConvNeXt (Liu et al. 2022, 2).

    Patches of `patch_size` squared pixels are projected and normalised; then come stages of `depths` layers
    and `sizes` channels, each but the first behind a norm and a projection of squares of 2 by 2 places. What
    is left of an image, or of a map, beside whole squares is not read. A layer convolves squares of 7 by 7
    places, each channel alone; a norm and a network follow, whose output is added. If `scaled`, a learned
    vector multiplies that output. If `responses`, the network's inner channels are normalised by their
    responses to the whole map (Woo et al. 2023, 3.2). With `map_norms`, a map is normalised for the head that
    reads it, and not for the next stage. Images may have any size from one place of the last map on;
    `image_size` is that of reports and cases.
    """

    depths: tuple[int, ...]
    sizes: tuple[int, ...]
    patch_size: int = 4
    activation: Activation = Activation.GELU
    scaled: bool = True
    responses: bool = False
    channels: int = 3
    image_size: tuple[int, int] = (224, 224)
    map_norms: bool = False

    masked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "patch_size", "channels")
        if len(self.depths) != len(self.sizes) or not self.depths or min(*self.depths, *self.sizes) < 1:
            raise SpecError(
                f"ConvNextSpec: depths {self.depths} and sizes {self.sizes}; expected as many of both, from 1"
            )
        if min(self.image_size) < self.stride:
            raise SpecError(
                f"ConvNextSpec: image_size {self.image_size}, expected at least {self.stride} pixels: the "
                "last map has no place for fewer"
            )

    @property
    def hidden_size(self) -> int:
        """Channels of the last map."""
        return self.sizes[-1]

    @property
    def stride(self) -> int:
        """The pixels of a place of the last map, in each direction."""
        return self.patch_size * MERGED ** (len(self.depths) - 1)

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of the map of each stage of an image of `image_size`, the finest first."""
        height, width = self.image_size
        strides = [self.patch_size * MERGED**number for number in range(len(self.depths))]
        return [(height // stride, width // stride) for stride in strides]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the last map of an image of `image_size`."""
        return self.grids[-1]

    @property
    def length(self) -> int:
        """The number of places of the last map."""
        rows, columns = self.grid
        return rows * columns

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.channels, *self.image_size

    def norm(self, size: int) -> NormSpec:
        """The norm of maps of `size` channels."""
        return NormSpec(size, EPS)
