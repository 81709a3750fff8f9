"""Attention to relative positions: DeBERTa's and Transformer-XL's, and Shaw's vectors of distances.

Each has `num_heads` heads of `head_dim` numbers over vectors of `hidden_size`. `token_masks` are the inputs
(B,S) of a model that it reads. The other constants are attributes that every kind of attention has.
"""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.rotary import RotarySpec


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

    Queries have learned biases: for contents, for sinusoids of distances, and if `segmented` for two vectors
    of segments, of a key in the query's segment or in another (Yang et al. 2019, 2.5). `bias` is for the
    projections of contents and of the output. Attention is bidirectional.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    segmented: bool = True
    bias: bool = False

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


@dataclass(frozen=True)
class RelativeKeyAttentionSpec:
    """Attention whose keys have a learned vector for each distance after the query (Shaw et al. 2018, 3.2).

    Distances are clipped to -`left` and `right`. All heads share the vectors. Attention is bidirectional.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    left: int
    right: int

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = True
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim")
        if min(self.left, self.right) < 0:
            raise SpecError(
                f"RelativeKeyAttentionSpec: left is {self.left} and right {self.right}, expected 0 or more"
            )

    @property
    def distances(self) -> int:
        """The number of distances."""
        return self.left + self.right + 1

    @property
    def scale(self) -> float:
        """The factor of the scores."""
        return self.head_dim**-0.5


@dataclass(frozen=True)
class RotatedInputAttentionSpec:
    """Attention whose queries and keys are projections of rotated vectors (Su et al. 2021, 3.2.2).

    Each head's share of a vector is rotated by its position, and then projected. Attention is bidirectional.
    """

    hidden_size: int
    num_heads: int
    rotary: RotarySpec

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = True
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads")
        if self.hidden_size % self.num_heads or 2 * len(self.rotary.frequencies) != self.head_dim:
            raise SpecError(
                f"RotatedInputAttentionSpec: {self.num_heads} heads over {self.hidden_size} numbers and "
                f"{len(self.rotary.frequencies)} frequencies; expected one for two numbers of a head"
            )

    @property
    def head_dim(self) -> int:
        """The size of a head."""
        return self.hidden_size // self.num_heads

    @property
    def scale(self) -> float:
        """The factor of the scores."""
        return self.head_dim**-0.5


# Attention that reads relative positions, or a rotation, in a way of its own.
PositionedAttentionSpec = (
    DisentangledAttentionSpec
    | TransformerXLAttentionSpec
    | RelativeKeyAttentionSpec
    | RotatedInputAttentionSpec
)
CONFORMER_ONLY = (RelativeKeyAttentionSpec, RotatedInputAttentionSpec)
