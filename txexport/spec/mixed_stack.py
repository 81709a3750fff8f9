"""Stacks of learned queries whose boxes begin as places of an image."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec
from txexport.spec.windowed_maps import WindowedMapsSpec


@dataclass(frozen=True)
class MixedStackSpec(WithoutBlocks):
    """Learned queries whose boxes begin as the likeliest places of an image's maps (Chen et al. 2024, 3.1).

    Of all places, the `queries` with the highest score of any of `labels` give a box each, which a learned
    change of each query moves. `objects` are the layers over the queries, of one `block`; each reads the maps
    near the box by `attention`. No layer changes the box. A box has `box_layers` dense layers with ReLU
    between them. A checkpoint has `groups` of queries for training, of which the first is read.
    """

    embedding: WindowedMapsSpec
    objects: QueryLayersSpec
    block: QueryBlockSpec
    attention: DeformableAttentionSpec
    queries: int
    labels: int
    box_layers: int = 3
    groups: int = 1

    def __post_init__(self) -> None:
        positive(self, "queries", "labels", "box_layers", "groups")
        name, width = "MixedStackSpec", self.hidden_size
        attention = self.attention.hidden_size, self.attention.levels
        if attention != (width, self.embedding.levels) or self.embedding.hidden_size != width:
            raise SpecError(
                f"{name}: attention to {attention[1]} levels, {attention[0]} wide, and "
                f"{self.embedding.levels} maps, {self.embedding.hidden_size} wide; expected as many, "
                f"{width} wide"
            )
        if not self.attention.boxes or not self.attention.by_level:
            raise SpecError(f"{name}: attention is {self.attention}, expected boxes of each level")
        if width % 4 or width % self.objects.num_heads:
            raise SpecError(
                f"{name}: queries are {width} wide with {self.objects.num_heads} heads, expected a multiple "
                "of 4 and of the heads"
            )
        if self.queries > self.embedding.length:
            raise SpecError(
                f"{name}: {self.queries} queries of {self.embedding.length} places, expected no more"
            )

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states that it returns."""
        return self.block.hidden_size
