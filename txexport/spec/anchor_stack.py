"""Stacks of queries that are anchor boxes."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec
from txexport.spec.resnet import ResNetSpec


@dataclass(frozen=True)
class AnchorStackSpec(WithoutBlocks):
    """Learned anchor boxes as queries that read an image (Liu et al. 2022, 4).

    `cells` are the layers over the embedding's map. Each multiplies the positions by numbers that it computes
    from the map. `objects` are the layers over queries: one for each of `boxes` learned boxes, or with
    `patterns` one for each pair of a box and a learned pattern. The position of a query is computed from the
    sinusoidal embedding of its box. Attention to the map is that of ConditionalStackSpec, but the embedding
    of a centre is also multiplied by predicted sides divided by the box's sides. Each layer but the last
    changes the box. The first layer alone, or with `placed` each layer, adds positions to the contents in
    attention to the map. All are of one `block`. The positions of the map have the `temperature`. A norm
    follows the last layer of queries, and with `cells_norm` also the last layer of the map.
    """

    embedding: ResNetSpec
    cells: QueryLayersSpec
    objects: QueryLayersSpec
    block: QueryBlockSpec
    boxes: int
    patterns: int = 0
    placed: bool = False
    cells_norm: bool = False
    temperature: float = 20.0
    box_layers: int = 3

    def __post_init__(self) -> None:
        positive(self, "boxes", "temperature", "box_layers")
        width, name = self.hidden_size, "AnchorStackSpec"
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
        if self.patterns < 0:
            raise SpecError(f"{name}: {self.patterns} patterns, expected 0 or more")

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states that it returns."""
        return self.embedding.hidden_size

    @property
    def queries(self) -> int:
        """The number of queries: one of each box, or of each box and pattern."""
        return self.boxes * max(self.patterns, 1)
