"""Efficient attention: fewer pairs of tokens, or narrower projections.

Each has `num_heads` heads of `head_dim` numbers over vectors of `hidden_size`, and `bias` says whether its
projections have one. `token_masks` are the inputs (B,S) of a model that it reads, in place of a mask of
pairs. The other constants are attributes that every kind of attention has.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.bottleneck import BottleneckSpec
from txexport.spec.convolved_attention import ConvolvedAttentionSpec
from txexport.spec.fourier_mixing import FourierMixingSpec
from txexport.spec.grid_attention import GridAttentionSpec
from txexport.spec.patch_bias_attention import PatchBiasAttentionSpec
from txexport.spec.reduced_attention import ReducedAttentionSpec
from txexport.spec.window_attention import WindowAttentionSpec


class Sharing(StrEnum):
    """Which of a layer's heads share a projection along the length (Wang et al. 2020, 4)."""

    NONE = "none"  # every head has its own two
    HEADS = "heads"  # one for all keys, one for all values
    KEY_VALUE = "kv"  # one for both


class Factored(StrEnum):
    """Which projections are a product of two narrow matrices."""

    VALUE = "value"
    INPUTS = "inputs"  # query, key and value
    ALL = "all"  # the output's too


@dataclass(frozen=True)
class LocalAttentionSpec:
    """A query sees its own block of `block_size` tokens, the one before it, and the one after it.

    Where `causal` there is none after it, and of its own block it sees the tokens up to itself.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    block_size: int
    causal: bool = False
    bias: bool = True

    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "block_size")


@dataclass(frozen=True)
class StridedAttentionSpec:
    """Half of the heads see a token and the `stride` before it, the others it and every stride-th before."""

    hidden_size: int
    num_heads: int
    head_dim: int
    stride: int
    bias: bool = True

    causal: ClassVar[bool] = True
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "stride")
        if self.num_heads % 2:
            raise SpecError(f"StridedAttentionSpec: {self.num_heads} heads cannot be halved evenly")


@dataclass(frozen=True)
class LongformerAttentionSpec:
    """A query sees the `window` // 2 tokens on either side of it, and every global token.

    A global token sees all tokens, through projections of its own.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    window: int
    bias: bool = True

    causal: ClassVar[bool] = False
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask", "global_attention_mask")

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "window")
        if self.window % 2:
            raise SpecError(f"LongformerAttentionSpec: a window of {self.window} has no two equal sides")


@dataclass(frozen=True)
class LinformerAttentionSpec:
    """Keys and values of up to `max_length` tokens become `projected_length` sums of them."""

    hidden_size: int
    num_heads: int
    head_dim: int
    max_length: int
    projected_length: int
    sharing: Sharing = Sharing.HEADS
    bias: bool = True

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "max_length", "projected_length")
        if self.projected_length > self.max_length:
            raise SpecError(
                f"LinformerAttentionSpec: {self.projected_length} sums of {self.max_length} tokens"
            )


@dataclass(frozen=True)
class LowRankAttentionSpec:
    """Every query sees every key; the `factored` projections go through `rank` numbers."""

    hidden_size: int
    num_heads: int
    head_dim: int
    rank: int
    factored: Factored = Factored.ALL
    causal: bool = False
    bias: bool = True

    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "rank")
        full = min(self.hidden_size, self.num_heads * self.head_dim)
        if self.rank > full:
            raise SpecError(f"LowRankAttentionSpec: rank is {self.rank}, and a matrix has {full} at most")


@dataclass(frozen=True)
class PerformerAttentionSpec:
    """Every query sees every key, through products of `num_features` random features in place of a softmax.

    `epsilon` is added to each feature, so that no sum of them is 0.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    num_features: int
    epsilon: float = 1e-4
    bias: bool = True

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "num_features", "epsilon")


SparseAttentionSpec = (
    LocalAttentionSpec
    | StridedAttentionSpec
    | LongformerAttentionSpec
    | LinformerAttentionSpec
    | LowRankAttentionSpec
    | PerformerAttentionSpec
    | WindowAttentionSpec
    | ReducedAttentionSpec
    | GridAttentionSpec
    | PatchBiasAttentionSpec
    | BottleneckSpec
    | FourierMixingSpec
    | ConvolvedAttentionSpec
)
