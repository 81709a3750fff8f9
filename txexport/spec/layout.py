"""A second flow of a stack beside that of its words: their layout on a page (Wang et al. 2022, LiLT)."""

from dataclasses import dataclass

from txexport.errors import SpecError
from txexport.spec.attention import AttentionSpec
from txexport.spec.embedding import PositionSpec
from txexport.spec.feed_forward import FeedForwardSpec
from txexport.spec.norm import NormSpec
from txexport.spec.page import BoxTablesSpec


@dataclass(frozen=True)
class LayoutEmbeddingSpec:
    """Projected vectors of boxes, plus positions, then a norm (Wang et al. 2022, 3.1.2).

    Positions have a table of their own, which is read at the rows of the words' table.
    """

    boxes: BoxTablesSpec
    position: PositionSpec
    norm: NormSpec

    def __post_init__(self) -> None:
        if not self.position.table:
            raise SpecError(f"LayoutEmbeddingSpec: positions are '{self.position.kind}', expected a table")

    @property
    def hidden_size(self) -> int:
        """Width of a word's layout."""
        return self.norm.size


@dataclass(frozen=True)
class LayoutFlowSpec:
    """A layer's second flow, in post-norm, whose attention is that of the words (Wang et al. 2022, 3.1.3).

    The scores of a pair of words are the sum of both flows' scores, and weigh the values of both. The last
    layer of a stack has queries and keys alone, and no `feed_forward`: nothing reads its layout.
    """

    attention: AttentionSpec
    feed_forward: FeedForwardSpec | None
    norm: NormSpec

    def __post_init__(self) -> None:
        width, kind = self.hidden_size, self.attention
        if kind != AttentionSpec(width, kind.num_heads, kind.num_heads, kind.head_dim, causal=False):
            raise SpecError(f"LayoutFlowSpec: {kind}; expected plain bidirectional attention")
        if self.norm.size != width or (self.feed_forward or kind).hidden_size != width:
            raise SpecError(f"LayoutFlowSpec: norm or feed_forward is not as wide as attention, {width}")

    @property
    def hidden_size(self) -> int:
        """Width of a word's layout."""
        return self.attention.hidden_size

    @property
    def ends(self) -> bool:
        """True where nothing reads the layout behind the layer."""
        return self.feed_forward is None

    @property
    def operations(self) -> int:
        """Operations for a pair of words: the product of queries and keys, and the weighted value."""
        products = 1 if self.ends else 2
        return 2 * products * self.attention.num_heads * self.attention.head_dim
