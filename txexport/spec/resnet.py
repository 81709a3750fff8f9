"""Images as maps of convolutions in residual stages."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive

REDUCTION = 4  # of channels within a bottleneck
STEM_STRIDE = 4  # of the first convolution and the pooling behind it


@dataclass(frozen=True)
class ResNetSpec:
    """The last map of a residual network (He et al. 2016, 4.1), projected to `hidden_size` numbers.

    A convolution of 7 by 7 pixels to `stem` channels, every second one, and the largest of 3 by 3; then
    stages of `depths` layers and `sizes` channels, each but the first with a stride of 2. A layer has two
    convolutions of 3 by 3, or as a `bottleneck` one between two of 1 by 1, with a quarter of the channels;
    batch norms of `eps` follow convolutions. Images may have any size; `image_size` is that of reports and
    cases. Zeros of the mask (B,height,width), of any size, mark pixels that are padding.
    """

    hidden_size: int
    depths: tuple[int, ...]
    sizes: tuple[int, ...]
    stem: int = 64
    bottleneck: bool = True
    eps: float = 1e-5
    channels: int = 3
    image_size: tuple[int, int] = (800, 1066)

    masked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "stem", "channels", "eps")
        if len(self.depths) != len(self.sizes) or not self.depths or min(*self.depths, *self.sizes) < 1:
            raise SpecError(
                f"ResNetSpec: depths {self.depths} and sizes {self.sizes}; expected as many of both, from 1"
            )
        if self.bottleneck and any(size % REDUCTION for size in self.sizes):
            raise SpecError(f"ResNetSpec: sizes {self.sizes}, expected multiples of {REDUCTION}")

    @property
    def stride(self) -> int:
        """The pixels of a place of the last map, in each direction."""
        return STEM_STRIDE * 2 ** (len(self.depths) - 1)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the last map of an image of `image_size`."""
        height, width = self.image_size
        return -(-height // self.stride), -(-width // self.stride)

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of the map of each stage of an image of `image_size`, the finest first."""
        height, width = self.image_size
        strides = [STEM_STRIDE * 2**number for number in range(len(self.depths))]
        return [(-(-height // stride), -(-width // stride)) for stride in strides]

    @property
    def length(self) -> int:
        """The number of places of the last map."""
        rows, columns = self.grid
        return rows * columns

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.channels, *self.image_size
