"""What a layer is made of: norms, attention, feed-forward networks."""

import math
from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.kinds import Activation, NormKind, NormPlacement
from txexport.spec_sparse import SparseAttentionSpec


@dataclass(frozen=True)
class NormSpec:
    """Normalisation of vectors of `size` numbers; a layer norm shifts by a bias, unless it has none."""

    size: int
    eps: float
    kind: NormKind = NormKind.LAYER
    bias: bool = True

    def __post_init__(self) -> None:
        positive(self, "size", "eps")


@dataclass(frozen=True)
class RotarySpec:
    """Rotation of queries and keys by their positions (Su et al. 2021, 3.4.2).

    Pair j of a head's first 2 * len(frequencies) numbers turns by position * frequencies[j] radians; the
    others stay. A pair is (j, j + len(frequencies)), or (2j, 2j + 1) where `interleaved`. `scale` multiplies
    the rotated numbers.
    """

    frequencies: tuple[float, ...]
    interleaved: bool = False
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.frequencies:
            raise SpecError("RotarySpec: no frequencies, so nothing is rotated")
        if not all(map(math.isfinite, self.frequencies)):
            raise SpecError("RotarySpec: a frequency is not finite")
        positive(self, "scale")


@dataclass(frozen=True)
class AttentionSpec:
    """Multi-head attention: `num_heads` query heads share `num_kv_heads` key and value heads.

    `bias` is of query, key and value projections, `output_bias` of the output's. `scale` multiplies the
    scores; None is 1/sqrt(head_dim). A query sees itself and the `window` - 1 tokens before it, and as many
    after it where attention is not causal; None is no limit. `head_norm` normalises every query and key head
    before it is rotated. Scores s become softcap * tanh(s / softcap). Where `biased`, the mask is numbers to
    add to the scores; where attention is `whole`, every query sees every key and there is no mask.
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
    biased: bool = False
    softcap: float | None = None
    whole: bool = False

    token_masks: ClassVar[tuple[str, ...]] = ()  # it takes a mask of pairs instead

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "num_kv_heads", "head_dim")
        if self.whole and not (self.by_length and not self.causal):
            raise SpecError("AttentionSpec: what sees everything has no window, no cap and no bias")
        if self.window is not None:
            positive(self, "window")
        if self.softcap is not None:
            positive(self, "softcap")
            if self.biased:
                raise SpecError("AttentionSpec: no architecture caps scores and adds a bias to them")
        if self.biased and self.num_kv_heads != self.num_heads:
            raise SpecError("AttentionSpec: a bias is of a query head, so every one needs keys of its own")
        if self.rotary is not None and 2 * len(self.rotary.frequencies) > self.head_dim:
            raise SpecError(
                f"AttentionSpec: {len(self.rotary.frequencies)} pairs exceed a head of {self.head_dim}"
            )
        if self.head_norm is not None and self.head_norm.size != self.head_dim:
            raise SpecError(f"AttentionSpec: head norm is {self.head_norm.size} wide, a head {self.head_dim}")
        if self.num_heads % self.num_kv_heads:
            raise SpecError(
                f"AttentionSpec: {self.num_heads} query heads cannot share {self.num_kv_heads} "
                "key/value heads evenly"
            )

    @property
    def by_length(self) -> bool:
        """Whether the lengths of a static cache alone say what a query sees, so that no mask is needed."""
        return self.window is None and self.softcap is None and not self.biased


@dataclass(frozen=True)
class FeedForwardSpec:
    """Two projections with a non-linearity between them; where `gated`, a third multiplies it."""

    hidden_size: int
    intermediate_size: int
    activation: Activation
    bias: bool = True
    gated: bool = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "intermediate_size")


@dataclass(frozen=True)
class ExpertsSpec:
    """A mixture of `count` feed-forward networks, of which a router picks `chosen` a token.

    Their outputs are added with the router's softmax over the picked ones as weights (Shazeer et al. 2017, 2;
    Jiang et al. 2024, 2.1).
    """

    expert: FeedForwardSpec
    count: int
    chosen: int

    def __post_init__(self) -> None:
        positive(self, "count", "chosen")
        if self.chosen > self.count:
            raise SpecError(f"ExpertsSpec: {self.chosen} of {self.count} experts cannot be chosen")

    @property
    def hidden_size(self) -> int:
        """Width of a token."""
        return self.expert.hidden_size


@dataclass(frozen=True)
class BlockSpec:
    """One layer: attention, attention over an encoder where `cross_attention` is given, feed-forward.

    Where `bare`, attention reads the layer's input without a norm. `layer_scale` multiplies what a sublayer
    adds by a learned vector (Touvron et al. 2021, 3.1).
    """

    attention: AttentionSpec | SparseAttentionSpec
    feed_forward: FeedForwardSpec | ExpertsSpec
    norm: NormSpec
    placement: NormPlacement
    cross_attention: AttentionSpec | None = None
    bare: bool = False
    layer_scale: bool = False

    def __post_init__(self) -> None:
        width = self.attention.hidden_size
        for part in (self.feed_forward, self.cross_attention):
            if part is not None and part.hidden_size != width:
                raise SpecError(
                    f"BlockSpec: {type(part).__name__} is {part.hidden_size} wide, attention {width}"
                )
        if self.norm.size != width:
            raise SpecError(f"BlockSpec: norm is {self.norm.size} wide, attention {width}")
        if self.cross_attention is not None and self.cross_attention.causal:
            raise SpecError("BlockSpec: cross attention sees the whole encoder, so it cannot be causal")
        if self.cross_attention is not None and not self.attention.causal:
            raise SpecError(
                "BlockSpec: a block with cross attention decodes, so its attention must be causal"
            )
        cross = self.cross_attention
        if cross is not None and self.placement == NormPlacement.PARALLEL:
            raise SpecError("BlockSpec: three sublayers in parallel are not known in any architecture")
        if cross is not None and (cross.rotary is not None or cross.head_norm is not None):
            raise SpecError("BlockSpec: cross attention rotates nothing and has no head norm")
        if cross is not None and self.placement == NormPlacement.SANDWICH:
            raise SpecError("BlockSpec: no architecture puts cross attention into a sandwich of norms")
        if self.bare and self.placement != NormPlacement.PRE:
            raise SpecError("BlockSpec: only a pre-norm block can leave its first norm out")
        mixed = isinstance(self.feed_forward, ExpertsSpec)
        if mixed and (self.placement != NormPlacement.PRE or cross is not None or self.layer_scale):
            raise SpecError("BlockSpec: a mixture of experts stands in a plain pre-norm block")

    @property
    def sparse(self) -> bool:
        """Whether attention reads masks of tokens, not one of pairs; then it has no cache."""
        return bool(self.attention.token_masks)

    @property
    def dense(self) -> AttentionSpec:
        """The attention of a block that is not sparse."""
        assert isinstance(self.attention, AttentionSpec)
        return self.attention
