"""Attention, and what costs less than it: fewer pairs of tokens, or narrower projections.

Each of the latter has `num_heads` heads of `head_dim` numbers over vectors of `hidden_size`, and `bias` says
whether its projections have one. A spec checks itself when it is made. `token_masks` are the inputs (B,S) of
a model that its attention reads, which takes no mask of pairs. The other constants answer what generic code
asks of any attention.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class RotarySpec:
    """Rotation of queries and keys by their positions (Su et al. 2021, 3.4.2).

    Pair j of a head's first 2 * len(frequencies) numbers turns by position * frequencies[j] radians; the
    others stay. A pair is (j, j + len(frequencies)), or (2j, 2j + 1) where `interleaved`. `scale` multiplies
    the rotated numbers. In a call with a position of `short_length` or beyond, all tokens turn by
    `long_frequencies`, where there are any (LongRoPE; Ding et al. 2024, 3.2).
    """

    frequencies: tuple[float, ...]
    interleaved: bool = False
    scale: float = 1.0
    long_frequencies: tuple[float, ...] = ()
    short_length: int = 0

    @property
    def of_short(self) -> "RotarySpec":
        """The same for short sequences alone."""
        return replace(self, long_frequencies=(), short_length=0)

    def __post_init__(self) -> None:
        if self.long_frequencies and len(self.long_frequencies) != len(self.frequencies):
            raise SpecError(
                f"RotarySpec: long_frequencies are {len(self.long_frequencies)} numbers, expected "
                f"{len(self.frequencies)}, as many as frequencies"
            )
        if bool(self.long_frequencies) != (self.short_length > 0):
            raise SpecError(
                f"RotarySpec: short_length is {self.short_length}, expected "
                f"{'1 or more' if self.long_frequencies else '0, without long_frequencies'}"
            )
        if not self.frequencies:
            raise SpecError(
                "RotarySpec: frequencies is (), so nothing is rotated; expected one or more numbers"
            )
        every = self.frequencies + self.long_frequencies
        endless = [frequency for frequency in every if not math.isfinite(frequency)]
        if endless:
            raise SpecError(f"RotarySpec: a frequency is {endless[0]}, expected finite numbers")
        positive(self, "scale")


@dataclass(frozen=True)
class AttentionSpec:
    """Multi-head attention: `num_heads` query heads share `num_kv_heads` key and value heads.

    `bias` is of query, key and value projections, `output_bias` of the output's. `scale` multiplies the
    scores; None is 1/sqrt(head_dim). Keys and values of a cross attention are made of vectors `source_size`
    wide, None for `hidden_size`. A query sees itself and the `window` - 1 tokens before it, and as many
    after it where attention is not causal; None is no limit. `head_norm` normalises every query and key head
    before it is rotated, or where it is a `joint_norm`, all heads of queries, and all of keys, as one vector;
    where it is a `rotated_norm`, every head after it is rotated. Numbers of queries, keys and values before
    that rotation are held within -clip and clip.
    Scores s become softcap * tanh(s / softcap). Where it `has_position_bias`, the mask is numbers to add to
    the scores; where it is `unmasked`, every query sees every key, without a mask. With `sinks`, the softmax
    of each query head has one more score, a learned number, whose share goes to no key.
    """

    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    causal: bool
    bias: bool = True
    output_bias: bool = True
    scale: float | None = None
    rotary: RotarySpec | None = None
    window: int | None = None
    head_norm: NormSpec | None = None
    has_position_bias: bool = False
    softcap: float | None = None
    unmasked: bool = False
    joint_norm: bool = False
    rotated_norm: bool = False
    clip: float | None = None
    sinks: bool = False
    source_size: int | None = None

    token_masks: ClassVar[tuple[str, ...]] = ()  # it takes a mask of pairs instead

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "num_kv_heads", "head_dim")
        if self.unmasked and not (self.maskless_static and not self.causal):
            raise SpecError(
                f"AttentionSpec: unmasked with causal={self.causal}, window={self.window}, "
                f"softcap={self.softcap}, has_position_bias={self.has_position_bias}, sinks={self.sinks}; "
                "what sees everything has no window, no cap, no bias and no sinks: expected False, None, "
                "None, False, False, or unmasked=False"
            )
        if self.sinks and (self.softcap is not None or self.has_position_bias):
            raise SpecError(
                f"AttentionSpec: sinks with softcap={self.softcap}, "
                f"has_position_bias={self.has_position_bias}, but no architecture has both; expected None "
                "and False, or sinks=False"
            )
        if self.window is not None:
            positive(self, "window")
        if self.softcap is not None:
            positive(self, "softcap")
            if self.has_position_bias:
                raise SpecError(
                    f"AttentionSpec: softcap is {self.softcap} and has_position_bias True, but no "
                    "architecture caps scores and adds a bias to them; expected one of the two"
                )
        if self.has_position_bias and self.num_kv_heads != self.num_heads:
            raise SpecError(
                f"AttentionSpec: num_kv_heads is {self.num_kv_heads}, expected num_heads, {self.num_heads}: "
                "a bias is of a query head, so every one needs keys of its own"
            )
        if self.rotary is not None and 2 * len(self.rotary.frequencies) > self.head_dim:
            raise SpecError(
                f"AttentionSpec: {len(self.rotary.frequencies)} pairs exceed a head of {self.head_dim}; "
                f"expected {self.head_dim // 2} frequencies at most"
            )
        if self.head_norm is not None and self.head_norm.size != self.head_dim:
            raise SpecError(f"AttentionSpec: head norm is {self.head_norm.size} wide, a head {self.head_dim}")
        if self.joint_norm and self.head_norm is None:
            raise SpecError("AttentionSpec: joint_norm is True, but there is no head_norm; expected False")
        if self.clip is not None:
            positive(self, "clip")
        if self.source_size is not None:
            positive(self, "source_size")
        if self.rotated_norm and (self.head_norm is None or self.rotary is None or self.joint_norm):
            raise SpecError(
                f"AttentionSpec: rotated_norm with head_norm={self.head_norm}, rotary={self.rotary}, "
                f"joint_norm={self.joint_norm}; expected a norm of each head and a rotation, or False"
            )
        if self.num_heads % self.num_kv_heads:
            raise SpecError(
                f"AttentionSpec: {self.num_heads} query heads cannot share {self.num_kv_heads} "
                "key/value heads evenly"
            )

    @property
    def key_value_size(self) -> int:
        """Width of the vectors that keys and values are made of."""
        return self.hidden_size if self.source_size is None else self.source_size

    @property
    def q_norm(self) -> NormSpec | None:
        """The norm of queries: of a head's, or of all."""
        return self._norm_of(self.num_heads)

    @property
    def k_norm(self) -> NormSpec | None:
        """The norm of keys: of a head's, or of all."""
        return self._norm_of(self.num_kv_heads)

    def _norm_of(self, heads: int) -> NormSpec | None:
        if self.head_norm is None or not self.joint_norm:
            return self.head_norm
        return replace(self.head_norm, size=heads * self.head_dim)

    @property
    def shares_keys(self) -> bool:
        """Whether several heads have keys and values in common (Ainslie et al. 2023)."""
        return self.num_heads != self.num_kv_heads

    @property
    def maskless_static(self) -> bool:
        """Whether the lengths of a static cache alone say what a query sees, so that no mask is needed."""
        plain = self.softcap is None and not self.has_position_bias and not self.sinks
        return plain and self.window is None

    @property
    def cache_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Heads, and numbers of each, that a cache keeps of a token's keys, and of its values."""
        return ((self.num_kv_heads, self.head_dim),) * 2


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
)
