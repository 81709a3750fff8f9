"""Facts that stacks share whose queries begin as places of an image."""

from txexport.errors import SpecError
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.hgnet_levels import HGNetLevelsSpec
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec
from txexport.spec.resnet_levels import ResNetLevelsSpec


class PlacesAsQueries(WithoutBlocks):
    """The fields of such a stack; see ProposalStackSpec."""

    embedding: ResNetLevelsSpec | HGNetLevelsSpec
    cells: QueryLayersSpec
    cell_block: QueryBlockSpec
    objects: QueryLayersSpec
    object_block: QueryBlockSpec
    attention: DeformableAttentionSpec
    queries: int

    def check(self, pyramid: int) -> None:
        """Raise SpecError where parts do not fit one another; the pyramid has `pyramid` channels."""
        name, inner, width = type(self).__name__, self.embedding.hidden_size, self.hidden_size
        if {self.cell_block.hidden_size, pyramid} != {inner}:
            raise SpecError(
                f"{name}: cells are {self.cell_block.hidden_size} wide and the pyramid {pyramid}, "
                f"expected the embedding's {inner}"
            )
        if inner % 4:
            raise SpecError(f"{name}: the embedding is {inner} wide, expected a multiple of 4")
        if (self.attention.hidden_size, self.attention.levels) != (width, self.embedding.levels):
            raise SpecError(
                f"{name}: attention to {self.attention.levels} levels, {self.attention.hidden_size} wide; "
                f"expected {self.embedding.levels}, {width} wide"
            )
        if self.attention.num_heads != self.objects.num_heads:
            raise SpecError(
                f"{name}: attention has {self.attention.num_heads} heads, expected the layers' "
                f"{self.objects.num_heads}"
            )
        for part, layers, size in (("cells", self.cells, inner), ("objects", self.objects, width)):
            if size % layers.num_heads:
                raise SpecError(f"{name}: {layers.num_heads} heads of {part}, expected a divisor of {size}")
        if self.queries > self.embedding.length:
            raise SpecError(
                f"{name}: {self.queries} queries of {self.embedding.length} places, expected no more"
            )

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states that it returns."""
        return self.object_block.hidden_size
