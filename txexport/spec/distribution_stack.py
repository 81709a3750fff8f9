"""Stacks of queries that predict a distribution for each edge of a box."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.boxes import EdgesSpec
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.enums import Activation
from txexport.spec.hgnet_levels import HGNetLevelsSpec
from txexport.spec.norm import NormSpec
from txexport.spec.places import PlacesAsQueries
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec


@dataclass(frozen=True)
class AggregationPyramidSpec:
    """A feature pyramid over maps of `size` channels, to fine and back (Peng et al. 2024, A.1).

    Two maps are concatenated and projected. Half of the result goes through two stages of `inner` channels,
    each followed by a 3 by 3 convolution; the projection and the outputs of both stages are concatenated and
    projected to `size`. A stage adds two projections, one of which goes through `blocks` pairs of
    convolutions. On the way back, a depthwise convolution with a stride of 2 halves a map. The rest is as in
    FusionPyramidSpec.
    """

    size: int
    inner: int
    activation: Activation
    eps: float = 1e-5
    blocks: int = 3

    def __post_init__(self) -> None:
        positive(self, "size", "inner", "eps", "blocks")


@dataclass(frozen=True)
class DistributionStackSpec(PlacesAsQueries):
    """Queries that predict a distribution for each edge of a box (Peng et al. 2024, 4.1).

    Up to the queries, it is a ProposalStackSpec, but maps are projected only where maps and queries have
    different widths. In a layer of `objects`, gates join queries with the output of cross-attention, and a
    norm of `gate_norm` follows. The first layer predicts a box for each query. Every layer refines the scores
    of four distributions, one for each of the box's `edges`; the mean of a distribution is the offset of its
    edge from that first box.
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
        self.check(self.pyramid.size)
        if self.gate_norm.size != self.hidden_size:
            raise SpecError(
                f"DistributionStackSpec: gates are {self.gate_norm.size} wide and queries {self.hidden_size}"
            )

    @property
    def projected(self) -> bool:
        """True where maps and queries have different widths."""
        return self.embedding.hidden_size != self.hidden_size
