"""Objects in images that the phrases of one text describe."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.embedding import EmbeddingSpec
from txexport.spec.enums import Activation, Architecture
from txexport.spec.feed_forward import FeedForwardSpec
from txexport.spec.layer_checks import check_no_crossing
from txexport.spec.norm import GroupNormSpec, NormSpec
from txexport.spec.patch_grid import PatchGridSpec
from txexport.spec.query_stack import QueryLayersSpec
from txexport.spec.stack import StackSpec, TextStackSpec
from txexport.spec.staged import StagedStackSpec


@dataclass(frozen=True)
class GroundedSpec:
    """A text and an image that read one another, and queries that become boxes (Liu et al. 2023, 3).

    Phrases of the text end at the token ids `separators`; a token attends to those of its phrase alone. The
    maps of stages with a `map_norm`, and coarser ones made of the last of them, are `levels` in all, each
    normalised by `map_norm`. `cells` are the layers over places and tokens: they read one another with half
    of the heads and numbers, then tokens attend to tokens, and places to `cell_points` of each level. The
    `queries` best places give the first boxes; `objects` are the layers over learned queries, which read the
    tokens and `object_points` of each level, and change the boxes, all alike with `shared_boxes`. A box has
    `box_layers` dense layers with ReLU between them. There are scores for `text_length` tokens.
    """

    text: TextStackSpec
    vision: StagedStackSpec
    levels: int
    map_norm: GroupNormSpec
    norm: NormSpec
    activation: Activation
    cells: QueryLayersSpec
    cell_points: int
    objects: QueryLayersSpec
    object_points: int
    queries: int
    text_length: int
    separators: tuple[int, ...]
    temperature: float
    shared_boxes: bool = True
    box_layers: int = 3

    architecture: ClassVar[Architecture] = Architecture.GROUNDED
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "levels", "cell_points", "object_points", "queries", "text_length", "temperature")
        positive(self, "box_layers")
        check_no_crossing(self, self.text.blocks)
        name, width = "GroundedSpec", self.hidden_size
        if not (
            isinstance(self.text.embedding, EmbeddingSpec)
            and isinstance(self.vision.embedding, PatchGridSpec)
        ):
            read = f"{type(self.text.embedding).__name__} and {type(self.vision.embedding).__name__}"
            raise SpecError(f"{name}: reads {read}, expected EmbeddingSpec and PatchGridSpec")
        if self.text.relative is not None or self.text.causal or self.text.final_norm is not None:
            raise SpecError(f"{name}: expected a text encoder with positions of its own and no final norm")
        if self.map_norm.size != width or width % 4:
            raise SpecError(
                f"{name}: maps are {self.map_norm.size} wide and places {width}, expected one multiple of 4"
            )
        if not 1 <= len(self.map_sizes) <= self.levels:
            raise SpecError(f"{name}: {len(self.map_sizes)} maps for {self.levels} levels")
        for part in (self.cells.num_heads, self.objects.num_heads):
            if width % part:
                raise SpecError(f"{name}: {part} heads, expected a divisor of {width}")
        if self.cells.num_heads % 2 or self.inner % self.mutual_heads or self.cells.intermediate_size % 2:
            raise SpecError(
                f"{name}: {self.cells.num_heads} heads and {self.cells.intermediate_size} numbers of cells; "
                "expected that half of the heads divides half of the numbers"
            )
        if self.queries > sum(rows * columns for rows, columns in self.grids):
            raise SpecError(f"{name}: {self.queries} queries, expected no more than places")
        if not self.separators or max(self.separators) >= self.text.embedding.vocab_size:
            raise SpecError(
                f"{name}: phrases end at {self.separators}, expected ids below "
                f"{self.text.embedding.vocab_size}"
            )

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"text": self.text, "vision": self.vision}

    @property
    def hidden_size(self) -> int:
        """Width of places, tokens and queries."""
        return self.norm.size

    @property
    def map_sizes(self) -> tuple[int, ...]:
        """The widths of the maps that are read of the image encoder."""
        return tuple(stage.hidden_size for stage in self.vision.stages if stage.map_norm is not None)

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of every level, for images of the embedding's size."""
        every = self.vision.grids(self.vision.embedding.grid)
        pairs = zip(every, self.vision.stages, strict=True)
        grids = [grid for grid, stage in pairs if stage.map_norm is not None]
        while len(grids) < self.levels:
            rows, columns = grids[-1]
            grids.append(((rows + 1) // 2, (columns + 1) // 2))
        return grids

    @property
    def mutual_heads(self) -> int:
        """Heads of the attention between places and tokens, and of that of tokens."""
        return self.cells.num_heads // 2

    @property
    def inner(self) -> int:
        """Numbers within the attention between places and tokens, and within the network of tokens."""
        return self.cells.intermediate_size // 2

    @property
    def limit(self) -> int:
        """The longest text, in tokens."""
        return min(self.text.limit or self.text_length, self.text_length)

    @property
    def cell_attention(self) -> DeformableAttentionSpec:
        """That of places."""
        sizes = self.hidden_size, self.cells.num_heads, self.levels, self.cell_points
        return DeformableAttentionSpec(*sizes, boxes=False, by_level=True)

    @property
    def object_attention(self) -> DeformableAttentionSpec:
        """That of queries to places."""
        sizes = self.hidden_size, self.objects.num_heads, self.levels, self.object_points
        return DeformableAttentionSpec(*sizes, by_level=True)

    def network(self, size: int) -> FeedForwardSpec:
        """A position-wise network of `size` numbers."""
        return FeedForwardSpec(self.hidden_size, size, self.activation)
