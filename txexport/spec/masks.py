"""Labels and masks of an image's segments, by queries."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import GroupNormSpec, NormSpec
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec

MASK_LAYERS = 3  # dense layers that make the vector of a mask


@dataclass(frozen=True)
class PixelPyramidSpec:
    """A feature pyramid, from the coarsest map to the finest (Lin et al. 2017, 3; Cheng et al. 2021, 3.4).

    Of maps of `sizes` channels, the finest first, the coarsest is convolved to those of the `norm`. To each
    next finer one, projected and normalised, the map so far is added at the nearest place; the sum is
    convolved. A last convolution makes `size` channels.
    """

    sizes: tuple[int, ...]
    norm: GroupNormSpec
    size: int

    def __post_init__(self) -> None:
        positive(self, "size")
        if len(self.sizes) < 2 or min(self.sizes) < 1:
            raise SpecError(f"PixelPyramidSpec: sizes are {self.sizes}, expected two or more of 1 or more")


@dataclass(frozen=True)
class MasksSpec:
    """Labels and masks of an image's segments (Cheng et al. 2021, 3.2 and 3.4).

    `queries` learned vectors go through `layers` that attend to one another and to the coarsest map, which is
    projected to their width if it has another one. Each has scores of labels, the last of them "no object",
    and a mask: the product of a vector with every place of the map that the `pyramid` returns.
    """

    pyramid: PixelPyramidSpec
    layers: QueryLayersSpec
    queries: int
    activation: Activation
    norm: NormSpec

    def __post_init__(self) -> None:
        positive(self, "queries")
        width = self.hidden_size
        if width % self.layers.num_heads:
            raise SpecError(f"MasksSpec: {self.layers.num_heads} heads, expected a divisor of {width}")
        if width % 4:
            raise SpecError(f"MasksSpec: queries are {width} wide, expected a multiple of 4")

    @property
    def hidden_size(self) -> int:
        """Width of the queries."""
        return self.norm.size

    @property
    def block(self) -> QueryBlockSpec:
        """The norm and the activation of its layers."""
        return QueryBlockSpec(self.norm, self.activation)

    @property
    def projected(self) -> bool:
        """True where the coarsest map is projected to the width of the queries."""
        return self.pyramid.sizes[-1] != self.hidden_size
