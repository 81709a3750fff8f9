"""Layers: attention, feed-forward networks or experts, and the norms around them."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.efficient_attention import SparseAttentionSpec
from txexport.spec.enums import Activation, NormPlacement
from txexport.spec.latent_attention import MaskedAttentionSpec
from txexport.spec.norm import NormSpec
from txexport.spec.relative_attention import PositionedAttentionSpec


@dataclass(frozen=True)
class FeedForwardSpec:
    """Two projections with a non-linearity between them; where `gated`, a third multiplies it.

    With a `clip`, what the non-linearity gets is at most that, and what multiplies it within -clip and clip,
    and 1 more (OpenAI 2025).
    """

    hidden_size: int
    intermediate_size: int
    activation: Activation
    bias: bool = True
    gated: bool = False
    clip: float | None = None

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "intermediate_size")
        if self.clip is not None:
            positive(self, "clip")
            if not self.gated:
                raise SpecError(
                    f"FeedForwardSpec: clip is {self.clip} and gated False; expected None, or gated=True: "
                    "what it adds 1 to is the gated half"
                )


@dataclass(frozen=True)
class ExpertsSpec:
    """A mixture of `num_experts` feed-forward networks, of which a router picks `top_k` a token.

    Their outputs are added with the router's softmax as weights (Shazeer et al. 2017, 2; Jiang et al. 2024,
    2.1): over the picked ones, or where it is not `normalised` over all. Where it is `corrected`, sigmoids
    stand for the softmax, divided by the sum of the picked ones where `normalised`, and experts are picked by
    these and a learned number each (DeepSeek-AI 2025, 2.1.2). Of `num_groups` groups of experts only the best
    `top_groups` are picked from: those with the best expert, or where `corrected` the best two (DeepSeek-AI
    2024, 2.2.2). `scale` multiplies the weights. `shared` is an expert that every token takes besides, where
    it is `shared_gated` as far as a sigmoid of its own lets it (Yang et al. 2024, 2.2.2). `router_bias`
    is whether the router's scores have one, `output_bias` whether what all experts give together has. With a
    `jitter`, each picked expert has a softmax of its own (Liu et al. 2024, 2.2): over it and those not picked
    before it whose scores are less than its own by at most 2 jitter times the larger of its score and their
    size.
    """

    expert: FeedForwardSpec
    num_experts: int
    top_k: int
    normalised: bool = True
    shared: FeedForwardSpec | None = None
    shared_gated: bool = True
    corrected: bool = False
    num_groups: int = 1
    top_groups: int = 1
    scale: float = 1.0
    router_bias: bool = False
    output_bias: bool = False
    jitter: float | None = None

    def __post_init__(self) -> None:
        positive(self, "num_experts", "top_k", "num_groups", "top_groups", "scale")
        if self.top_k > self.num_experts:
            cannot = f"{self.top_k} of {self.num_experts} experts cannot be chosen"
            raise SpecError(f"ExpertsSpec: {cannot}; expected 1 to {self.num_experts}")
        if self.shared is not None and self.shared.hidden_size != self.hidden_size:
            raise SpecError(
                f"ExpertsSpec: the shared expert is {self.shared.hidden_size} wide, expected the others' "
                f"{self.hidden_size}"
            )
        self._check_groups()
        if self.jitter is not None:
            positive(self, "jitter")
            if self.corrected or self.num_groups > 1 or not self.normalised:
                raise SpecError(
                    f"ExpertsSpec: jitter is {self.jitter} with corrected={self.corrected}, "
                    f"num_groups={self.num_groups}, normalised={self.normalised}; no architecture has both: "
                    "expected None, or False, 1 and True"
                )

    def _check_groups(self) -> None:
        """Raise SpecError unless the experts fall into groups from which so many can be picked."""
        size, rest = divmod(self.num_experts, self.num_groups)
        if rest or self.top_groups > self.num_groups:
            raise SpecError(
                f"ExpertsSpec: the best {self.top_groups} of {self.num_groups} groups of {self.num_experts} "
                "experts; expected groups of one size, and no more of them than there are"
            )
        if self.num_groups > 1 and (self.top_groups * size < self.top_k or (self.corrected and size < 2)):
            raise SpecError(
                f"ExpertsSpec: {self.top_k} experts from {self.top_groups} groups of {size}; expected enough "
                "of them, and two in each group where they are corrected"
            )
        if self.num_groups > 1 and self.normalised and not self.corrected:
            raise SpecError(
                "ExpertsSpec: normalised is True with groups of experts, but no architecture has a softmax "
                "over those picked from groups; expected normalised=False, or corrected=True"
            )

    @property
    def hidden_size(self) -> int:
        """Width of a token."""
        return self.expert.hidden_size


@dataclass(frozen=True)
class BlockSpec:
    """One layer: attention, attention over an encoder where `cross_attention` is given, feed-forward.

    Where `skip_attention_norm`, attention reads the layer's input without a norm. `layer_scale` multiplies
    what a sublayer adds by a learned vector (Touvron et al. 2021, 3.1), `residual_scale` by one number.
    """

    attention: MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec
    feed_forward: FeedForwardSpec | ExpertsSpec
    norm: NormSpec
    placement: NormPlacement
    cross_attention: AttentionSpec | None = None
    skip_attention_norm: bool = False
    layer_scale: bool = False
    residual_scale: float = 1.0

    def __post_init__(self) -> None:
        positive(self, "residual_scale")
        width = self.attention.hidden_size
        for part in (self.feed_forward, self.cross_attention):
            if part is not None and part.hidden_size != width:
                raise SpecError(
                    f"BlockSpec: {type(part).__name__} is {part.hidden_size} wide, attention {width}"
                )
        if self.norm.size != width:
            raise SpecError(f"BlockSpec: norm is {self.norm.size} wide, attention {width}")
        if self.cross_attention is not None:
            self._check_cross(self.cross_attention)
        if self.skip_attention_norm and self.placement != NormPlacement.PRE:
            raise SpecError(
                f"BlockSpec: skip_attention_norm with placement '{self.placement}', expected "
                f"'{NormPlacement.PRE}': only a pre-norm block can leave its first norm out"
            )
        crossed = self.cross_attention is not None
        mixed, plain = isinstance(self.feed_forward, ExpertsSpec), (NormPlacement.PRE, NormPlacement.POST)
        if mixed and (self.placement not in plain or crossed or self.layer_scale):
            raise SpecError(
                f"BlockSpec: experts with placement '{self.placement}', layer_scale={self.layer_scale} and "
                f"{'a' if crossed else 'no'} cross attention; a mixture of experts stands in a plain "
                f"pre-norm or post-norm block: expected '{plain[0]}' or '{plain[1]}', False and none"
            )

    def _check_cross(self, cross: AttentionSpec) -> None:
        """Raise SpecError unless the block can be a decoder's."""
        if cross.causal:
            raise SpecError(
                "BlockSpec: cross_attention.causal is True, expected False: "
                "cross attention sees the whole encoder, so it cannot be causal"
            )
        if not self.attention.causal:
            raise SpecError(
                "BlockSpec: attention.causal is False, expected True: "
                "a block with cross attention decodes, so its attention must be causal"
            )
        if self.placement == NormPlacement.PARALLEL:
            raise SpecError(
                f"BlockSpec: placement is '{self.placement}', but three sublayers in parallel are not known "
                f"in any architecture; expected '{NormPlacement.PRE}' or '{NormPlacement.POST}'"
            )
        if self.residual_scale != 1:
            raise SpecError(
                f"BlockSpec: residual_scale is {self.residual_scale}, but no architecture scales what cross "
                "attention adds; expected 1.0"
            )
        if self.dense.source_size is not None:
            raise SpecError(
                f"BlockSpec: attention.source_size is {self.dense.source_size}, expected None: only cross "
                "attention reads other vectors than the block's own"
            )
        if cross.rotary is not None or cross.head_norm is not None:
            field = "rotary" if cross.rotary is not None else "head_norm"
            raise SpecError(
                f"BlockSpec: cross_attention.{field} is given, expected None: "
                "cross attention rotates nothing and has no head norm"
            )
        if cross.sinks:
            raise SpecError(
                "BlockSpec: cross_attention.sinks is True, expected False: no architecture has them there"
            )
        if self.placement in (NormPlacement.SANDWICH, NormPlacement.RES_POST, NormPlacement.DOUBLE_POST):
            raise SpecError(
                f"BlockSpec: placement is '{self.placement}', but no architecture puts cross attention into "
                "a sandwich of norms, a norm behind it alone or two; expected "
                f"'{NormPlacement.PRE}' or '{NormPlacement.POST}'"
            )

    @property
    def dense(self) -> AttentionSpec:
        """The attention of a block that has the usual one."""
        assert isinstance(self.attention, AttentionSpec)
        return self.attention

    @property
    def masked(self) -> MaskedAttentionSpec:
        """The attention of a block whose attention reads a mask of pairs, and may have a cache."""
        assert isinstance(self.attention, MaskedAttentionSpec)
        return self.attention
