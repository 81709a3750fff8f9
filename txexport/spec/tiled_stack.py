"""Images in tiles, whose patches attend to those of all tiles of their image (Meta 2024, Llama 3.2)."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.images_alone import ImagesAlone
from txexport.spec.layer import BlockSpec
from txexport.spec.layer_checks import check_layers, check_no_crossing
from txexport.spec.norm import NormSpec

MULTIPLE = 8  # the vectors of a tile are padded with zeros to a multiple of it


@dataclass(frozen=True)
class TilesSpec:
    """The patches of `tiles` square tiles of an image, each after a learned vector of its class.

    A tile has a side of `image_size` pixels, a patch one of `patch_size`. Vectors of each tile are added to
    its patches, by the image's aspect ratio, one of `ratios`, or of padding. Then come positions within a
    tile, and in proportion to a gate those within all tiles of that aspect ratio, and a `norm`.
    """

    hidden_size: int
    image_size: int
    patch_size: int
    tiles: int
    ratios: int
    norm: NormSpec
    channels: int = 3

    masked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "image_size", "patch_size", "tiles", "ratios", "channels")
        if self.image_size % self.patch_size:
            raise SpecError(
                f"TilesSpec: a tile of {self.image_size} pixels a side has no whole patches of "
                f"{self.patch_size}"
            )
        if self.norm.size != self.hidden_size:
            raise SpecError(f"TilesSpec: the norm is {self.norm.size} wide, a patch {self.hidden_size}")

    @property
    def vectors_of_tile(self) -> int:
        """The number of vectors of a tile: one of its class, and those of its patches."""
        return 1 + (self.image_size // self.patch_size) ** 2

    @property
    def padded(self) -> int:
        """The number of vectors of a tile in the layers, with padding."""
        return -(-self.vectors_of_tile // MULTIPLE) * MULTIPLE

    @property
    def length(self) -> int:
        """The number of vectors of an image."""
        return self.tiles * self.vectors_of_tile

    @property
    def shape(self) -> tuple[int, ...]:
        """Tiles of an image, their channels, height and width."""
        return self.tiles, self.channels, self.image_size, self.image_size


@dataclass(frozen=True)
class TiledStackSpec(ImagesAlone):
    """Layers over all tiles of an image, a `middle_norm`, then `global_layers` with gates.

    Between the two, vectors of each tile are added again. The result has the last layer's output, and of
    each number the outputs of the first layers whose numbers are `read`, one after another.
    """

    embedding: TilesSpec
    block: BlockSpec
    local_layers: int
    global_block: BlockSpec
    global_layers: int
    middle_norm: NormSpec
    read: tuple[int, ...]

    final_norm: ClassVar[NormSpec | None] = None

    def __post_init__(self) -> None:
        positive(self, "local_layers", "global_layers")
        check_layers(self)
        check_no_crossing(self, self.blocks)
        if any(block.attention.causal or block.attention.window for block in self.blocks):
            raise SpecError("TiledStackSpec: attention is causal or has a window; expected neither of them")
        if self.middle_norm.size != self.hidden_size:
            raise SpecError(
                f"TiledStackSpec: the middle norm is {self.middle_norm.size} wide, a layer {self.hidden_size}"
            )
        if any(not 0 <= layer < self.local_layers for layer in self.read):
            raise SpecError(
                f"TiledStackSpec: layers {self.read} are read, expected numbers of the {self.local_layers} "
                "before the middle norm"
            )

    @property
    def blocks(self) -> tuple[BlockSpec, ...]:
        """Both kinds of layers."""
        return self.block, self.global_block

    @property
    def layers(self) -> tuple[BlockSpec, ...]:
        """The block of every layer."""
        return (self.block,) * self.local_layers + (self.global_block,) * self.global_layers

    @property
    def num_layers(self) -> int:
        """The number of all layers."""
        return self.local_layers + self.global_layers

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.embedding.hidden_size

    @property
    def output_size(self) -> int:
        """Width of the vectors that it returns."""
        return self.hidden_size * (1 + len(self.read))
