"""The maps of a network of convolutions, without layers over them."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError
from txexport.spec.convnext import ConvNextSpec
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.resnet import ResNetSpec


@dataclass(frozen=True)
class ResNetMapsSpec:
    """The maps of all stages of a residual network, as ResNetSpec describes them, without a projection."""

    depths: tuple[int, ...]
    sizes: tuple[int, ...]
    stem: int = 64
    bottleneck: bool = True
    eps: float = 1e-5
    channels: int = 3
    image_size: tuple[int, int] = (640, 640)

    masked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _ = self.network

    @property
    def network(self) -> ResNetSpec:
        """The same network with a projection to as many channels as its last map has."""
        sizes, image = self.sizes, self.image_size
        width = sizes[-1] if sizes else 0
        return ResNetSpec(
            width, self.depths, sizes, self.stem, self.bottleneck, self.eps, self.channels, image
        )

    @property
    def hidden_size(self) -> int:
        """Channels of the last map."""
        return self.sizes[-1]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the last map of an image of `image_size`."""
        return self.network.grid

    @property
    def stride(self) -> int:
        """The pixels of a place of the last map, in each direction."""
        return self.network.stride

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of the map of each stage of an image of `image_size`, the finest first."""
        return self.network.grids

    @property
    def length(self) -> int:
        """The number of places of the last map."""
        return self.network.length

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.network.shape


@dataclass(frozen=True)
class MaskedMapsSpec:
    """The last `levels` maps of a residual network over images with a mask of their pixels.

    Zeros of the mask (B,height,width), of any size, mark pixels that are padding.
    """

    maps: ResNetMapsSpec
    levels: int

    masked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.levels <= len(self.maps.sizes):
            raise SpecError(
                f"MaskedMapsSpec: {self.levels} levels of {len(self.maps.sizes)} stages; expected 1 or more, "
                "and no more than stages"
            )

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return self.maps.channels

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of an image of reports and cases."""
        return self.maps.image_size

    @property
    def hidden_size(self) -> int:
        """Channels of the last map."""
        return self.maps.hidden_size

    @property
    def read(self) -> tuple[int, ...]:
        """Channels of the maps, the finest first."""
        return self.maps.sizes[-self.levels :]

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of the maps of an image of `image_size`."""
        return self.maps.network.grids[-self.levels :]

    @property
    def length(self) -> int:
        """The number of places of the last map."""
        return self.maps.length

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.maps.shape


@dataclass(frozen=True)
class MapStackSpec(WithoutBlocks):
    """An image's maps, for a head that reads all of them, or the last one."""

    embedding: ResNetMapsSpec | ConvNextSpec

    @property
    def hidden_size(self) -> int:
        """Channels of the last map."""
        return self.embedding.hidden_size
