"""Images as the maps of several stages of an HGNetV2."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive

STEM_STRIDE = 4  # of the stem's convolutions


@dataclass(frozen=True)
class HGNetStageSpec:
    """`blocks` of `layers` convolutions with `inner` channels, one after the other.

    A block concatenates its input and the outputs of all of its convolutions, and projects them to half of
    `size` channels and then to `size`. Each block but the first has a residual connection. A `light`
    convolution is a 1 by 1 convolution followed by a depthwise one of `kernel` by `kernel`. With `halved`, a
    depthwise 3 by 3 convolution with a stride of 2 comes first.
    """

    inner: int
    size: int
    blocks: int
    layers: int
    kernel: int = 3
    light: bool = False
    halved: bool = True

    def __post_init__(self) -> None:
        positive(self, "inner", "size", "blocks", "layers", "kernel")
        if self.size % 2 or not self.kernel % 2:
            raise SpecError(
                f"HGNetStageSpec: size is {self.size} and kernel {self.kernel}, expected an even size and an "
                "odd kernel"
            )


@dataclass(frozen=True)
class HGNetLevelsSpec:
    """The maps of the last `levels` stages of an HGNetV2, each projected to `hidden_size` numbers.

    The stem has `stem` channels inside and `stem_size` at its end. A batch norm of `eps` and ReLU follow each
    convolution, and where `affine` a learned factor and a learned addend (Peng et al. 2024, A.1). A batch
    norm follows each projection. The height and width of an image are multiples of `stride`; `image_size` is
    the one in reports and cases.
    """

    hidden_size: int
    stages: tuple[HGNetStageSpec, ...]
    levels: int = 3
    stem: int = 32
    stem_size: int = 48
    affine: bool = False
    eps: float = 1e-5
    channels: int = 3
    image_size: tuple[int, int] = (640, 640)

    masked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "levels", "stem", "stem_size", "channels", "eps")
        if self.stem % 2:
            raise SpecError(f"HGNetLevelsSpec: {self.stem} channels of the stem, expected an even number")
        if self.levels > len(self.stages):
            raise SpecError(
                f"HGNetLevelsSpec: {self.levels} levels of {len(self.stages)} stages, expected no more"
            )
        if not all(stage.halved for stage in self.stages[len(self.stages) - self.levels + 1 :]):
            raise SpecError("HGNetLevelsSpec: a stage of a level is not halved, expected all but the first")
        if any(side % self.stride for side in self.image_size):
            raise SpecError(
                f"HGNetLevelsSpec: image_size {self.image_size}, expected multiples of {self.stride}"
            )

    @property
    def strides(self) -> tuple[int, ...]:
        """The pixels of a place of each stage's map, in each direction."""
        strides, stride = [], STEM_STRIDE
        for stage in self.stages:
            stride *= 2 if stage.halved else 1
            strides.append(stride)
        return tuple(strides)

    @property
    def stride(self) -> int:
        """The pixels of a place of the last map, in each direction."""
        return self.strides[-1]

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of each level of an image of `image_size`, the finest first."""
        height, width = self.image_size
        return [(height // stride, width // stride) for stride in self.strides[-self.levels :]]

    @property
    def length(self) -> int:
        """The number of places of all levels."""
        return sum(rows * columns for rows, columns in self.grids)

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.channels, *self.image_size
