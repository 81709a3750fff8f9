"""Embeddings of images and spectrograms: patches, or convolutions over frames."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class PatchSpec:
    """Patches of `patch_size` squared pixels, each projected to a vector (Dosovitskiy et al. 2021, 3.1).

    `tokens` learned vectors precede them, then a table of positions is added, then an optional norm follows.
    `image_size` is height and width in pixels; `bias` is the projection's. With `any_size`, images may have
    other sizes: their positions are interpolated from the table, with antialiasing where `antialias` is set
    and there are fewer patches. `registers` are learned vectors after the tokens, without positions (Darcet
    et al. 2023, 2.2). Without `positioned` no table is added: layers rotate by a patch's row and column.
    `detection_tokens` are learned vectors behind the patches, with positions (Fang et al. 2021, 3.1). A
    `border` of zeros that wide surrounds the image. With `shared_position`, the table's first row is added to
    every patch, and the others to one each.
    """

    hidden_size: int
    image_size: tuple[int, int]
    patch_size: int
    channels: int = 3
    tokens: int = 1
    bias: bool = True
    norm: NormSpec | None = None
    any_size: bool = False
    antialias: bool = False
    registers: int = 0
    positioned: bool = True
    detection_tokens: int = 0
    border: int = 0
    shared_position: bool = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "patch_size", "channels")
        if self.antialias and not (self.any_size and self.positioned):
            raise SpecError(
                "PatchSpec: antialias is True, but positions of one size, or none, are not interpolated"
            )
        if self.registers < 0 or self.detection_tokens < 0:
            raise SpecError(
                f"PatchSpec: registers is {self.registers} and detection_tokens {self.detection_tokens}, "
                "expected 0 or more"
            )
        if self.tokens not in (0, 1, 2):
            raise SpecError(f"PatchSpec: tokens is {self.tokens}, expected 0, 1 or 2")
        if self.shared_position and (self.tokens or self.any_size or not self.positioned):
            raise SpecError(
                f"PatchSpec: shared_position is True with {self.tokens} tokens, any_size={self.any_size} and "
                f"positioned={self.positioned}; expected positions of patches alone, of one size"
            )
        padded = [(side + 2 * self.border) // self.patch_size for side in self.image_size]
        if self.border < 0 or (self.border and (self.any_size or (*padded,) != self.grid)):
            raise SpecError(
                f"PatchSpec: border is {self.border} around {self.image_size} pixels, "
                f"any_size={self.any_size}; expected one size, and less than makes another patch"
            )
        if min(self.image_size) < self.patch_size:
            raise SpecError(f"PatchSpec: {self.image_size} pixels hold no patch of {self.patch_size}")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        height, width = self.image_size
        return height // self.patch_size, width // self.patch_size

    @property
    def length(self) -> int:
        """The number of vectors of an image of `image_size`."""
        return self.tokens + self.patches + self.detection_tokens + self.registers

    @property
    def positions(self) -> int:
        """The rows of the table of positions."""
        return self.shared_position + self.tokens + self.patches + self.detection_tokens

    @property
    def patches(self) -> int:
        """The number of patches."""
        rows, columns = self.grid
        return rows * columns

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.channels, *self.image_size


@dataclass(frozen=True)
class LogMelSpec:
    """A spectrogram of `length` * 2 frames through two convolutions (Radford et al. 2022, 2.2).

    The second one halves the frames; then a table of positions is added. Where it is `masked`, layers attend
    to the vectors of real frames alone.
    """

    hidden_size: int
    num_mel_bins: int
    length: int
    activation: Activation
    masked: bool = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_mel_bins", "length")

    @property
    def shape(self) -> tuple[int, ...]:
        """Bands and frames of a spectrogram."""
        return self.num_mel_bins, 2 * self.length


@dataclass(frozen=True)
class SpectrogramSpec:
    """Overlapping square patches of a spectrogram, each projected to a vector (Gong et al. 2021, 2.1).

    The spectrogram has `max_length` frames of `num_mel_bins` bands, a patch `patch_size` of both. Patches are
    `time_stride` frames and `frequency_stride` bands apart. Two learned vectors precede them, then a table of
    positions is added.
    """

    hidden_size: int
    num_mel_bins: int
    max_length: int
    patch_size: int
    frequency_stride: int
    time_stride: int

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "patch_size", "frequency_stride", "time_stride")
        if min(self.shape) < self.patch_size:
            raise SpecError(
                f"SpectrogramSpec: {self.max_length} frames of {self.num_mel_bins} bands hold no patch of "
                f"{self.patch_size}"
            )

    @property
    def length(self) -> int:
        """The number of output vectors."""
        bands = (self.num_mel_bins - self.patch_size) // self.frequency_stride + 1
        return 2 + bands * ((self.max_length - self.patch_size) // self.time_stride + 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Frames and bands of a spectrogram."""
        return self.max_length, self.num_mel_bins
