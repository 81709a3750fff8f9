"""Spectrograms folded into squares, as grids of patches."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class SpectrogramGridSpec:
    """A spectrogram folded into a square of patches (Chen et al. 2022, "HTS-AT", 3.1).

    Each of `num_mel_bins` bands is normalised by statistics of training, with `eps`. The frames, up to
    `max_length`, are interpolated to `max_length` and cut into `folds` parts, which are laid out one below
    the other: a square of `side` pixels. Patches of `patch_size` squared are projected and normalised.
    """

    hidden_size: int
    num_mel_bins: int
    side: int
    patch_size: int
    norm: NormSpec | None
    eps: float = 1e-5

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_mel_bins", "side", "patch_size", "eps")
        if self.side % self.num_mel_bins or self.side % self.patch_size or self.max_length < 2:
            raise SpecError(
                f"SpectrogramGridSpec: a square of {self.side} pixels of {self.num_mel_bins} bands in "
                f"patches of {self.patch_size}; expected 2 or more, a multiple of both"
            )
        if self.norm is not None and self.norm.size != self.hidden_size:
            raise SpecError(f"SpectrogramGridSpec: norm is {self.norm.size} wide, patches {self.hidden_size}")

    @property
    def folds(self) -> int:
        """The number of parts of the frames."""
        return self.side // self.num_mel_bins

    @property
    def max_length(self) -> int:
        """The largest number of frames."""
        return self.side * self.folds

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.side // self.patch_size, self.side // self.patch_size

    @property
    def length(self) -> int:
        """The number of vectors of a sound."""
        rows, columns = self.grid
        return rows * columns

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, frames and bands of the longest spectrogram."""
        return 1, self.max_length, self.num_mel_bins
