"""Labels and masks of an image's segments, by queries whose attention is masked by their own masks."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.enums import Activation
from txexport.spec.norm import GroupNormSpec, NormSpec
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec


@dataclass(frozen=True)
class DeformablePyramidSpec:
    """Maps whose places attend to points of one another, and a finer one (Cheng et al. 2022, 3.2.2).

    Of maps of `sizes` channels, the finest first, all but the first are projected and normalised. Their
    places go through `layers` of attention to `points` places of each of them (Zhu et al. 2021, 4.1). The
    finest of them is interpolated, added to the first map, projected and normalised, and convolved. A last
    projection makes `size` channels.
    """

    sizes: tuple[int, ...]
    norm: GroupNormSpec
    layers: QueryLayersSpec
    size: int
    points: int = 4
    eps: float = 1e-5

    def __post_init__(self) -> None:
        positive(self, "size", "points", "eps")
        if len(self.sizes) < 2 or min(self.sizes) < 1:
            raise SpecError(f"DeformablePyramidSpec: sizes are {self.sizes}, expected two or more from 1")
        if self.norm.size % 4:
            raise SpecError(f"DeformablePyramidSpec: maps of {self.norm.size}, expected a multiple of 4")
        _ = self.attention

    @property
    def hidden_size(self) -> int:
        """Channels of the maps that attend to one another."""
        return self.norm.size

    @property
    def levels(self) -> int:
        """The number of maps that attend to one another."""
        return len(self.sizes) - 1

    @property
    def block(self) -> QueryBlockSpec:
        """The norm and the activation of its layers."""
        return QueryBlockSpec(NormSpec(self.hidden_size, self.eps), Activation.RELU)

    @property
    def attention(self) -> DeformableAttentionSpec:
        """The attention of a layer."""
        heads = self.layers.num_heads
        return DeformableAttentionSpec(self.hidden_size, heads, self.levels, self.points, boxes=False)


@dataclass(frozen=True)
class MaskedQueriesSpec:
    """Labels and masks of an image's segments (Cheng et al. 2022, 3.2).

    `queries` learned vectors go through `layers` that attend to the maps of the `pyramid` in turn, the
    coarsest first, within the masks that they have so far, then to one another. Maps are `projected` to their
    width, or have it. Each query has scores of labels, the last of them "no object", and a mask: the product
    of a vector with every place of the finest map.
    """

    pyramid: DeformablePyramidSpec
    layers: QueryLayersSpec
    queries: int
    block: QueryBlockSpec
    projected: bool = False

    def __post_init__(self) -> None:
        positive(self, "queries")
        width = self.hidden_size
        if width % self.layers.num_heads or width % 4:
            raise SpecError(
                f"MaskedQueriesSpec: queries are {width} wide with {self.layers.num_heads} heads; expected a "
                "multiple of 4 and of them"
            )
        if not self.block.crossed_first:
            raise SpecError("MaskedQueriesSpec: crossed_first is False, expected True")
        if not self.projected and width != self.pyramid.hidden_size:
            raise SpecError(
                f"MaskedQueriesSpec: queries are {width} wide, maps {self.pyramid.hidden_size}; expected the "
                "same, or projected=True"
            )

    @property
    def hidden_size(self) -> int:
        """Width of the queries."""
        return self.block.hidden_size
