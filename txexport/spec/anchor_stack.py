"""Stacks of queries that are boxes, which read an image."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.norm import NormSpec
from txexport.spec.query_stack import QueryLayersSpec
from txexport.spec.resnet import ResNetSpec


@dataclass(frozen=True)
class AnchorStackSpec(WithoutBlocks):
    """Learned boxes as queries that read an image (Liu et al. 2022, 4).

    `cells` are the layers over the embedding's map, whose positions each layer multiplies by numbers that the
    places give; `objects` those over `boxes` learned boxes, or with `patterns` that many learned vectors of
    each. A query's position is made of its box's sines. In attention to the map, a score is that of contents
    plus that of positions, as in ConditionalStackSpec, but the sines of a point are also multiplied by sides
    that the query gives as shares of the box's. Each layer changes the box. Queries are added to positions in
    the first layer's attention to the map alone, or with `placed` in every one's. Networks have PReLU; sines
    of places have the `temperature`. A norm follows the last layer, and with `cells_norm` the map's last.
    """

    embedding: ResNetSpec
    cells: QueryLayersSpec
    objects: QueryLayersSpec
    norm: NormSpec
    boxes: int
    patterns: int = 0
    placed: bool = False
    cells_norm: bool = False
    temperature: float = 20.0
    box_layers: int = 3

    def __post_init__(self) -> None:
        positive(self, "boxes", "temperature", "box_layers")
        width, name = self.hidden_size, "AnchorStackSpec"
        if self.norm.size != width:
            raise SpecError(f"{name}: norm is {self.norm.size} wide, the embedding {width}")
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
