"""Attention that projects vectors of relative positions: DeBERTa's and Transformer-XL's.

Each has `num_heads` heads of `head_dim` numbers over vectors of `hidden_size`. `token_masks` are the inputs
(B,S) of a model that it reads. The other constants are attributes that every kind of attention has.
"""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class DisentangledAttentionSpec:
    """Every query sees every key; contents meet relative positions beside contents (He et al. 2021, 3.1).

    A query's content meets its position as the key sees it where it is `content_to_position`, a key's content
    the other way round where it is `position_to_content`. Where `shared`, vectors of positions are projected
    as contents are, otherwise by matrices of their own.
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
        """How many products with positions are added to that of contents."""
        return self.content_to_position + self.position_to_content

    @property
    def scale(self) -> float:
        """What each of the products is multiplied with, so that their sum varies as one of them would."""
        return ((1 + self.terms) * self.head_dim) ** -0.5


@dataclass(frozen=True)
class TransformerXLAttentionSpec:
    """Every query sees every key; contents meet sinusoids of distances (Dai et al. 2019, 3.3).

    Queries have a learned bias before they meet contents, another before distances, and a third before one of
    two vectors of segments: whether the key is of the query's own or not (Yang et al. 2019, 2.5).
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
        """What scores are multiplied with."""
        return self.head_dim**-0.5


PositionedAttentionSpec = (
    DisentangledAttentionSpec | TransformerXLAttentionSpec
)  # they read vectors of positions
