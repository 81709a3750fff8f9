"""Maps of a Transformer whose layers attend within windows of an image."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.convolution_module import BatchNormSpec
from txexport.spec.enums import Activation
from txexport.spec.layer import BlockSpec
from txexport.spec.layer_checks import check_no_crossing
from txexport.spec.norm import NormSpec
from txexport.spec.signal_embedding import PatchSpec

NARROWED = 512  # a map of more channels is projected to half of them before it is doubled
SCALES = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class ProjectorSpec:
    """Levels of maps of `size` channels, each made of several maps of one size (Chen et al. 2024, 3.1).

    For a level, each map is resized by one of the `scales`, and all are concatenated and projected to twice
    `inner` channels. The second half of these passes `blocks` pairs of 3 by 3 convolutions; both halves and
    what each pair returns are projected to `size` channels, and `norm` follows. Each convolution has a norm,
    `layer_norm_eps` being the epsilon of a layer norm and `batch_norm_eps` that of a batch norm, and the
    activation.
    """

    size: int
    inner: int
    blocks: int
    activation: Activation
    norm: NormSpec
    scales: tuple[float, ...] = (1.0,)
    layer_norm_eps: float | None = None
    batch_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        positive(self, "size", "inner", "blocks", "batch_norm_eps")
        if self.norm.size != self.size:
            raise SpecError(f"ProjectorSpec: norm is {self.norm.size} wide, maps {self.size}")
        if not self.scales or any(scale not in SCALES for scale in self.scales):
            raise SpecError(f"ProjectorSpec: scales are {self.scales}, expected one or more of {SCALES}")

    def norm_of(self, size: int) -> NormSpec | BatchNormSpec:
        """The norm of a convolution of `size` channels."""
        if self.layer_norm_eps is None:
            return BatchNormSpec(size, self.batch_norm_eps)
        return NormSpec(size, self.layer_norm_eps)

    def resized(self, size: int, scale: float) -> int:
        """Channels of a map of `size` channels after it is resized."""
        if scale != 2.0:
            return size
        return size // 4 if size > NARROWED else size // 2


@dataclass(frozen=True)
class WindowedMapsSpec:
    """Feature maps of a ViT with window attention, for images with a mask of their pixels.

    The patches are cut into `side` by `side` windows, each with a copy of the learned token if there is one.
    Layers attend within a window, but those of `everywhere` to all windows (Li et al. 2022, 3). The hidden
    states before layer i, for each i of `read`, are normalised by `norm` if there is one, and become maps
    that the `projector` turns into levels. If windows are `turned`, the places of a window are as many
    columns by as many rows as the window has rows and columns; in square images that changes nothing.

    Zeros of the mask (B,height,width), of any size, mark pixels that are padding. Images may have any height
    and width whose patches `side` divides; `image_size` is that of reports and cases.
    """

    patches: PatchSpec
    block: BlockSpec
    side: int
    everywhere: tuple[int, ...]
    read: tuple[int, ...]
    projector: ProjectorSpec
    image_size: tuple[int, int]
    norm: NormSpec | None = None
    turned: bool = False

    masked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, "side")
        check_no_crossing(self, [self.block])
        name, patches, attention = "WindowedMapsSpec", self.patches, self.block.attention
        if not self.read or self.read[0] < 0 or any(first >= second for first, second in pairwise(self.read)):
            raise SpecError(f"{name}: read is {self.read}, expected one or more rising numbers from 0")
        if any(layer not in range(self.num_layers) for layer in self.everywhere):
            raise SpecError(f"{name}: everywhere is {self.everywhere} of {self.num_layers} layers")
        if not isinstance(attention, AttentionSpec) or not attention.unmasked:
            raise SpecError(f"{name}: attention is {attention}, expected one that is unmasked")
        if attention.hidden_size != patches.hidden_size:
            raise SpecError(
                f"{name}: attention is {attention.hidden_size} wide and patches {patches.hidden_size}"
            )
        others = patches.registers, patches.detection_tokens, patches.border, patches.tokens > 1
        if not (patches.any_size or not patches.positioned) or any(others):
            raise SpecError(
                f"{name}: patches are {patches}, expected those of any size, and one token at most"
            )
        if any(count % self.side or not count for count in self.grid):
            raise SpecError(f"{name}: {self.grid} patches, expected multiples of {self.side}")

    @property
    def num_layers(self) -> int:
        """The number of layers, the last of which returns the last map."""
        return self.read[-1]

    @property
    def vectors(self) -> int:
        """The vectors of all windows of an image of `image_size`, with their tokens."""
        rows, columns = self.grid
        return rows * columns + self.side**2 * self.patches.tokens

    @property
    def scores(self) -> int:
        """The scores of attention of the largest layer."""
        attention = self.block.attention
        assert isinstance(attention, AttentionSpec)
        keys = self.vectors if self.everywhere else self.vectors // self.side**2
        return attention.num_heads * self.vectors * keys

    @property
    def hidden_size(self) -> int:
        """Channels of a level."""
        return self.projector.size

    @property
    def levels(self) -> int:
        """The number of levels."""
        return len(self.projector.scales)

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return self.patches.channels

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches of an image of `image_size`."""
        height, width = self.image_size
        return height // self.patches.patch_size, width // self.patches.patch_size

    @property
    def stride(self) -> int:
        """The pixels of as many patches as there are windows in each direction."""
        return self.patches.patch_size * self.side

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of the levels of an image of `image_size`."""
        rows, columns = self.grid
        sizes = {0.5: ((rows + 1) // 2, (columns + 1) // 2), 2.0: (2 * rows, 2 * columns)}
        return [sizes.get(scale, (rows, columns)) for scale in self.projector.scales]

    @property
    def length(self) -> int:
        """The number of places of all levels."""
        return sum(rows * columns for rows, columns in self.grids)

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.channels, *self.image_size
