"""Attention that projects vectors of relative positions: DeBERTa's and Transformer-XL's.

Each has `num_heads` heads of `head_dim` numbers over vectors of `hidden_size`. `token_masks` are the inputs
(B,S) of a model that it reads. The other constants are attributes that every kind of attention has.
"""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class DisentangledAttentionSpec:
    """Disentangled attention: scores of contents and relative positions (He et al. 2021, 3.1).

    `content_to_position` adds products of a query's content and a relative position, `position_to_content`
    those of a relative position and a key's content. With `shared`, vectors of positions are projected by the
    matrices of contents, otherwise by matrices of their own. Attention is bidirectional.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    content_to_position: bool = True
    position_to_content: bool = True
    shared: bool = True

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = True
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim")
        if not self.terms:
            raise SpecError(
                "DisentangledAttentionSpec: content_to_position and position_to_content are False, so that "
                "nothing tells the order of tokens; expected True for one of them"
            )

    @property
    def terms(self) -> int:
        """The number of products with positions that are added to the product of contents."""
        return self.content_to_position + self.position_to_content

    @property
    def scale(self) -> float:
        """The factor of every product, which keeps the variance of their sum (He et al. 2021, 3.1)."""
        return ((1 + self.terms) * self.head_dim) ** -0.5


@dataclass(frozen=True)
class TransformerXLAttentionSpec:
    """Transformer-XL attention: scores of contents and distances (Dai et al. 2019, 3.3).

    Queries have three learned biases: for contents, for sinusoids of distances, and for two vectors of
    segments, of a key in the query's segment or in another (Yang et al. 2019, 2.5). Attention is
    bidirectional.
    """

    hidden_size: int
    num_heads: int
    head_dim: int

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = True
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim")

    @property
    def scale(self) -> float:
        """The factor of the scores."""
        return self.head_dim**-0.5


PositionedAttentionSpec = (
    DisentangledAttentionSpec | TransformerXLAttentionSpec
)  # both read vectors of relative positions
