"""What a layer is made of: attention, feed-forward networks, and the norms around them."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec, SparseAttentionSpec
from txexport.spec.enums import Activation, NormPlacement
from txexport.spec.norm import NormSpec


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
    """A mixture of `num_experts` feed-forward networks, of which a router picks `top_k` a token.

    Their outputs are added with the router's softmax over the picked ones as weights (Shazeer et al. 2017, 2;
    Jiang et al. 2024, 2.1).
    """

    expert: FeedForwardSpec
    num_experts: int
    top_k: int

    def __post_init__(self) -> None:
        positive(self, "num_experts", "top_k")
        if self.top_k > self.num_experts:
            raise SpecError(f"ExpertsSpec: {self.top_k} of {self.num_experts} experts cannot be chosen")

    @property
    def hidden_size(self) -> int:
        """Width of a token."""
        return self.expert.hidden_size


@dataclass(frozen=True)
class BlockSpec:
    """One layer: attention, attention over an encoder where `cross_attention` is given, feed-forward.

    Where `skip_attention_norm`, attention reads the layer's input without a norm. `layer_scale` multiplies
    what a sublayer adds by a learned vector (Touvron et al. 2021, 3.1).
    """

    attention: AttentionSpec | SparseAttentionSpec
    feed_forward: FeedForwardSpec | ExpertsSpec
    norm: NormSpec
    placement: NormPlacement
    cross_attention: AttentionSpec | None = None
    skip_attention_norm: bool = False
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
        if self.skip_attention_norm and self.placement != NormPlacement.PRE:
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
        if not isinstance(self.attention, AttentionSpec):
            raise SpecError(f"BlockSpec: {type(self.attention).__name__} is sparse")
        return self.attention
