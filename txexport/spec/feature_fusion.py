"""Maps of features of several layers' states, fused from coarse to fine."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.convolution_module import BatchNormSpec
from txexport.spec.enums import Activation, ClassReadout

FACTORS = (4.0, 2.0, 1.0, 0.5)  # of the sides of a grid of patches


@dataclass(frozen=True)
class FeatureMapSpec:
    """A layer's patches as a map of features (Ranftl et al. 2021, 3.1).

    `layer` 0 is the input of the first layer, n the output of the n-th. Vectors are projected to `size`
    channels, and the sides of their grid are multiplied by `factor`: by a transposed convolution, or, for
    0.5, by a convolution with stride 2. `readout` adds what the class token has to each patch before that,
    through `activation` where both are projected.
    """

    layer: int
    size: int
    factor: float
    readout: ClassReadout = ClassReadout.IGNORE
    activation: Activation = Activation.GELU

    def __post_init__(self) -> None:
        positive(self, "size")
        if self.layer < 0 or self.factor not in FACTORS:
            raise SpecError(
                f"FeatureMapSpec: layer {self.layer} with factor {self.factor}; expected a layer from 0 and "
                f"a factor of {', '.join(f'{factor:g}' for factor in FACTORS)}"
            )


@dataclass(frozen=True)
class FeatureFusionSpec:
    """The fused map of `maps`, the finest first (Ranftl et al. 2021, 3.1).

    Each map is convolved to `size` channels. From the last to the first, they are added and refined by
    residual convolution units, and interpolated; with a `norm`, one follows each convolution of a unit, which
    has a `bias` or none. A fused map has the rows and columns of the next finer one, or, if it is `doubling`,
    twice its own, to which the finer one is interpolated. A patch has `patch_size` pixels a side. The first
    `tokens` vectors of a state are no patches.
    """

    maps: tuple[FeatureMapSpec, ...]
    size: int
    patch_size: int
    tokens: int = 1
    norm: BatchNormSpec | None = None
    bias: bool = True
    doubling: bool = False

    def __post_init__(self) -> None:
        positive(self, "size", "patch_size")
        layers, factors = self.layers, [part.factor for part in self.maps]
        if not layers or layers != sorted(set(layers)) or factors != sorted(set(factors), reverse=True):
            raise SpecError(
                f"FeatureFusionSpec: maps of the layers {layers} with factors {factors}; expected one or "
                "more, layers that rise and factors that fall"
            )
        if self.tokens < 1 and any(part.readout != ClassReadout.IGNORE for part in self.maps):
            raise SpecError("FeatureFusionSpec: maps read a class token, but tokens is 0; expected 1 or more")
        if self.tokens < 0:
            raise SpecError(f"FeatureFusionSpec: tokens is {self.tokens}, expected 0 or more")
        if self.norm is not None and self.norm.size != self.size:
            raise SpecError(f"FeatureFusionSpec: norm is {self.norm.size} wide, expected {self.size}")

    @property
    def layers(self) -> list[int]:
        """The layers whose states are read."""
        return [part.layer for part in self.maps]

    def sides(self, rows: int, columns: int) -> list[tuple[int, int]]:
        """Height and width of each map, for an image of `rows` and `columns` of patches."""
        return [(int(rows * part.factor + 0.5), int(columns * part.factor + 0.5)) for part in self.maps]

    def fused_sides(self, rows: int, columns: int) -> list[tuple[int, int]]:
        """Height and width at which each map is added, as those of `sides`."""
        sides = self.sides(rows, columns)
        high, wide = sides[-1]
        count = len(sides)
        if self.doubling:
            return [(high * 2**number, wide * 2**number) for number in range(count - 1, -1, -1)]
        return sides
