"""The label of every pixel of an image."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.convolution_module import BatchNormSpec
from txexport.spec.feature_fusion import FeatureFusionSpec


@dataclass(frozen=True)
class SegmentsSpec:
    """Scores of labels from the maps of all stages (Xie et al. 2021, 3.2).

    Each map, of `sizes` channels, is projected to `hidden_size` ones and interpolated to the finest. One
    projection of all of them side by side, the coarsest first, is normalised by `norm`, and after a ReLU
    projected to the scores, which are as many as the finest map has places.
    """

    sizes: tuple[int, ...]
    hidden_size: int
    norm: BatchNormSpec

    def __post_init__(self) -> None:
        positive(self, "hidden_size")
        if not self.sizes or min(self.sizes) < 1:
            raise SpecError(f"SegmentsSpec: sizes are {self.sizes}, expected one or more of 1 or more")
        if self.norm.size != self.hidden_size:
            raise SpecError(f"SegmentsSpec: norm is {self.norm.size} wide, expected {self.hidden_size}")


@dataclass(frozen=True)
class FusedSegmentsSpec:
    """Scores of labels from fused maps of several layers (Ranftl et al. 2021, 3.1).

    The fused map is convolved, normalised by `norm`, and after a ReLU projected to the scores, which are
    interpolated to twice as many rows and columns.
    """

    fusion: FeatureFusionSpec
    norm: BatchNormSpec

    def __post_init__(self) -> None:
        if self.norm.size != self.fusion.size:
            raise SpecError(f"FusedSegmentsSpec: norm is {self.norm.size} wide, expected {self.fusion.size}")


@dataclass(frozen=True)
class PyramidSpec:
    """Scores of labels from a pyramid of four layers' patches (Xiao et al. 2018, 3.1; Bao et al. 2022, 3.2).

    The states of `layers` become maps of 4, 2, 1 and 0.5 times as many rows and columns as there are patches.
    The coarsest is pooled to squares of `scales` places (Zhao et al. 2017, 3.2), and from it to the finest
    the maps are added. All maps have the encoder's width, as `norm`, which follows each convolution before a
    ReLU. A patch has `patch_size` pixels a side. The first `tokens` vectors of a state are no patches.
    """

    layers: tuple[int, ...]
    scales: tuple[int, ...]
    norm: BatchNormSpec
    patch_size: int
    tokens: int = 1

    def __post_init__(self) -> None:
        positive(self, "patch_size")
        rising = list(self.layers) == sorted(set(self.layers))
        if len(self.layers) != len(PYRAMID) or self.layers[0] < 0 or not rising:
            raise SpecError(f"PyramidSpec: layers are {self.layers}, expected four that rise, from 0")
        if not self.scales or min(self.scales) < 1 or self.tokens < 0:
            raise SpecError(
                f"PyramidSpec: scales are {self.scales} and tokens {self.tokens}; expected one or more "
                "scales of 1 or more, and tokens of 0 or more"
            )

    def sides(self, rows: int, columns: int) -> list[tuple[int, int]]:
        """Height and width of each map, for an image of `rows` and `columns` of patches."""
        return [(int(rows * factor), int(columns * factor)) for factor in PYRAMID]


@dataclass(frozen=True)
class MapPyramidSpec:
    """Scores of labels from a pyramid of the maps of all stages (Xiao et al. 2018, 3.1).

    Maps of `sizes` channels are projected to as many as `norm` has, which follows each convolution before a
    ReLU. The coarsest is pooled to squares of `scales` places (Zhao et al. 2017, 3.2), and from it to the
    finest the maps are added. The scores are interpolated to the pixels of the image.
    """

    sizes: tuple[int, ...]
    scales: tuple[int, ...]
    norm: BatchNormSpec

    def __post_init__(self) -> None:
        if len(self.sizes) < 2 or not self.scales or min(*self.sizes, *self.scales) < 1:
            raise SpecError(
                f"MapPyramidSpec: sizes are {self.sizes} and scales {self.scales}; expected two or more maps "
                "and one or more scales, of 1 or more"
            )


PYRAMID = (4, 2, 1, 0.5)  # of the sides of a grid of patches
