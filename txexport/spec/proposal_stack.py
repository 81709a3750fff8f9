"""Stacks of queries that begin as places of an image."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.enums import Activation
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec
from txexport.spec.resnet_levels import ResNetLevelsSpec


@dataclass(frozen=True)
class FusionPyramidSpec:
    """Maps of `size` channels that tell one another what they see (Zhao et al. 2024, 4.2).

    From the coarsest map to the finest, and back, each is joined with its neighbour: two projections to
    `inner` channels, one of them through `blocks` pairs of convolutions, added and projected to `size`.
    """

    size: int
    inner: int
    activation: Activation
    eps: float = 1e-5
    blocks: int = 3

    def __post_init__(self) -> None:
        positive(self, "size", "inner", "eps", "blocks")


@dataclass(frozen=True)
class ProposalStackSpec(WithoutBlocks):
    """Queries that begin as the likeliest places of an image's maps (Zhao et al. 2024, 4).

    `cells` are the layers over the coarsest map, of `cell_block`; then the `pyramid`. Of all places, the
    `queries` with the highest score of any of `labels` become queries, with a box each. `objects` are the
    layers over them, of `object_block`; each reads the maps by `attention` and changes the box. A box has
    `box_layers` dense layers with ReLU between them.
    """

    embedding: ResNetLevelsSpec
    cells: QueryLayersSpec
    cell_block: QueryBlockSpec
    pyramid: FusionPyramidSpec
    objects: QueryLayersSpec
    object_block: QueryBlockSpec
    attention: DeformableAttentionSpec
    queries: int
    labels: int
    eps: float = 1e-5
    box_layers: int = 3
    temperature: float = 10000.0

    def __post_init__(self) -> None:
        positive(self, "queries", "labels", "eps", "box_layers", "temperature")
        inner, width, stack = self.embedding.hidden_size, self.hidden_size, "ProposalStackSpec"
        if {self.cell_block.hidden_size, self.pyramid.size} != {inner}:
            raise SpecError(
                f"{stack}: cells are {self.cell_block.hidden_size} wide and the pyramid {self.pyramid.size}, "
                f"expected the embedding's {inner}"
            )
        if inner % 4:
            raise SpecError(f"{stack}: the embedding is {inner} wide, expected a multiple of 4")
        if (self.attention.hidden_size, self.attention.levels) != (width, self.embedding.levels):
            raise SpecError(
                f"{stack}: attention to {self.attention.levels} levels, {self.attention.hidden_size} wide; "
                f"expected {self.embedding.levels}, {width} wide"
            )
        if self.attention.num_heads != self.objects.num_heads:
            raise SpecError(
                f"{stack}: attention has {self.attention.num_heads} heads, expected the layers' "
                f"{self.objects.num_heads}"
            )
        for name, part, size in (("cells", self.cells, inner), ("objects", self.objects, width)):
            if size % part.num_heads:
                raise SpecError(f"{stack}: {part.num_heads} heads of {name}, expected a divisor of {size}")
        if self.queries > self.embedding.length:
            raise SpecError(
                f"{stack}: {self.queries} queries of {self.embedding.length} places, expected no more"
            )

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states that it returns."""
        return self.object_block.hidden_size
