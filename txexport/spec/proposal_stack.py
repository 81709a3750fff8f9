"""Stacks of queries that begin as places of an image."""

from dataclasses import dataclass

from txexport.errors import positive
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.enums import Activation
from txexport.spec.places import PlacesAsQueries
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
class ProposalStackSpec(PlacesAsQueries):
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
        self.check(self.pyramid.size)
