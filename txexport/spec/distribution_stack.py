"""Stacks of queries whose boxes have distributions of edges."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.boxes import EdgesSpec
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.enums import Activation
from txexport.spec.hgnet_levels import HGNetLevelsSpec
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.norm import NormSpec
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec


@dataclass(frozen=True)
class AggregationPyramidSpec:
    """Maps of `size` channels that tell one another what they see (Peng et al. 2024, A.1).

    As in FusionPyramidSpec, but two maps are joined by a projection whose second half passes two stages of
    `inner` channels, and all of what they leave is projected. A stage adds a projection and one through
    `blocks` pairs of convolutions; a convolution of 3 by 3 places follows. Every second place is taken by
    a convolution of each channel alone.
    """

    size: int
    inner: int
    activation: Activation
    eps: float = 1e-5
    blocks: int = 3

    def __post_init__(self) -> None:
        positive(self, "size", "inner", "eps", "blocks")


@dataclass(frozen=True)
class DistributionStackSpec(WithoutBlocks):
    """Queries that begin as the likeliest places of an image's maps, with distributions of edges.

    As ProposalStackSpec up to the queries (Zhao et al. 2024, 4); maps are projected only where places and
    queries have different widths. A layer of `objects` joins what it reads by gates, with a norm of
    `gate_norm`. The first one makes a box of each query; every one changes the distributions of its four
    `edges`, whose means move the edges (Peng et al. 2024, 4.1).
    """

    embedding: HGNetLevelsSpec
    cells: QueryLayersSpec
    cell_block: QueryBlockSpec
    pyramid: AggregationPyramidSpec
    objects: QueryLayersSpec
    object_block: QueryBlockSpec
    gate_norm: NormSpec
    attention: DeformableAttentionSpec
    edges: EdgesSpec
    queries: int
    labels: int
    eps: float = 1e-5
    box_layers: int = 3
    temperature: float = 10000.0

    def __post_init__(self) -> None:
        positive(self, "queries", "labels", "eps", "box_layers", "temperature")
        inner, width, stack = self.embedding.hidden_size, self.hidden_size, "DistributionStackSpec"
        if {self.cell_block.hidden_size, self.pyramid.size} != {inner}:
            raise SpecError(
                f"{stack}: cells are {self.cell_block.hidden_size} wide and the pyramid {self.pyramid.size}, "
                f"expected the embedding's {inner}"
            )
        if inner % 4:
            raise SpecError(f"{stack}: the embedding is {inner} wide, expected a multiple of 4")
        if self.gate_norm.size != width:
            raise SpecError(f"{stack}: gates are {self.gate_norm.size} wide and queries {width}")
        attention = self.attention.hidden_size, self.attention.levels, self.attention.num_heads
        if attention != (width, self.embedding.levels, self.objects.num_heads):
            raise SpecError(
                f"{stack}: attention to {attention[1]} levels, {attention[0]} wide, of {attention[2]} heads; "
                f"expected {self.embedding.levels}, {width} wide, of {self.objects.num_heads}"
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
