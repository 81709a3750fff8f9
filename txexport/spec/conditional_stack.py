"""Stacks of learned queries that read an image near points."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec
from txexport.spec.resnet import ResNetSpec


@dataclass(frozen=True)
class ConditionalStackSpec(WithoutBlocks):
    """Learned queries that read an image near points (Meng et al. 2021, 3).

    `cells` are the layers over the embedding's map, as in QueryStackSpec; `objects` those over `queries`
    vectors, all of one `block`. In attention to the map, a score is that of contents plus that of positions:
    sines and cosines of a learned point, multiplied by numbers that the query gives, with those of a place.
    A norm follows the last layer.
    """

    embedding: ResNetSpec
    cells: QueryLayersSpec
    objects: QueryLayersSpec
    block: QueryBlockSpec
    queries: int

    def __post_init__(self) -> None:
        positive(self, "queries")
        width, name = self.hidden_size, "ConditionalStackSpec"
        if self.block.hidden_size != width:
            raise SpecError(f"{name}: norm is {self.block.hidden_size} wide, the embedding {width}")
        if self.block.pre_norm or self.block.crossed_first:
            raise SpecError(
                f"{name}: pre_norm is {self.block.pre_norm}, crossed_first {self.block.crossed_first}; "
                "expected neither"
            )
        for part, layers in (("cells", self.cells), ("objects", self.objects)):
            if width % layers.num_heads:
                raise SpecError(f"{name}: {layers.num_heads} heads of {part}, expected a divisor of {width}")
        if width % 4:
            raise SpecError(f"{name}: the embedding is {width} wide, expected a multiple of 4")

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states that it returns."""
        return self.embedding.hidden_size
