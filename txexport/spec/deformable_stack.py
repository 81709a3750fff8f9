"""Stacks of queries that read points of an image's maps."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.map_stack import MaskedMapsSpec
from txexport.spec.norm import GroupNormSpec
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec


@dataclass(frozen=True)
class DeformableStackSpec(WithoutBlocks):
    """Queries that read points of an image's maps (Zhu et al. 2021, 4).

    The embedding's maps, and coarser ones made of the last of them, are `levels` in all, each normalised by
    `map_norm`. `cells` are the layers over places, which attend to `cell_points` of each level; `objects` are
    those over `queries` vectors, which attend to one another and to `object_points` of each level, all of one
    `block`. A learned query reads the maps near a learned point; if it is `refined`, each layer makes a box
    of it and changes that (A.4). If they are `proposed`, queries begin as the likeliest places and their
    boxes. A box has `box_layers` dense layers with ReLU between them.
    """

    embedding: MaskedMapsSpec
    levels: int
    map_norm: GroupNormSpec
    block: QueryBlockSpec
    cells: QueryLayersSpec
    cell_points: int
    objects: QueryLayersSpec
    object_points: int
    queries: int
    refined: bool = False
    proposed: bool = False
    box_layers: int = 3

    def __post_init__(self) -> None:
        positive(self, "levels", "cell_points", "object_points", "queries", "box_layers")
        name, width = "DeformableStackSpec", self.hidden_size
        if self.map_norm.size != width or width % 4:
            raise SpecError(
                f"{name}: maps are {self.map_norm.size} wide and places {width}, expected one multiple of 4"
            )
        if self.levels < len(self.embedding.read):
            raise SpecError(f"{name}: {len(self.embedding.read)} maps for {self.levels} levels")
        for part, layers in (("cells", self.cells), ("objects", self.objects)):
            if width % layers.num_heads:
                raise SpecError(f"{name}: {layers.num_heads} heads of {part}, expected a divisor of {width}")
        if self.proposed and not self.refined:
            raise SpecError(f"{name}: proposed is True and refined False; expected both")
        if self.proposed and self.queries > self.area:
            raise SpecError(f"{name}: {self.queries} queries of {self.area} places, expected no more")

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states that it returns."""
        return self.block.hidden_size

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of every level, for images of the embedding's size."""
        grids = list(self.embedding.grids)
        while len(grids) < self.levels:
            rows, columns = grids[-1]
            grids.append(((rows + 1) // 2, (columns + 1) // 2))
        return grids

    @property
    def area(self) -> int:
        """The number of places of all levels, for images of the embedding's size."""
        return sum(rows * columns for rows, columns in self.grids)

    @property
    def cell_attention(self) -> DeformableAttentionSpec:
        """That of places."""
        sizes = self.hidden_size, self.cells.num_heads, self.levels, self.cell_points
        return DeformableAttentionSpec(*sizes, boxes=False, by_level=True)

    def object_attention(self, boxes: bool) -> DeformableAttentionSpec:
        """That of queries to places near a point, or near a box."""
        sizes = self.hidden_size, self.objects.num_heads, self.levels, self.object_points
        return DeformableAttentionSpec(*sizes, boxes=boxes, by_level=True)

    def reads_boxes(self, layer: int) -> bool:
        """Tell whether queries of a layer have boxes, not points."""
        return self.proposed or (self.refined and layer > 0)
