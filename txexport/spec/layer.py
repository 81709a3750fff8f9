"""Layers: attention, feed-forward networks or experts, and the norms around them."""

from collections.abc import Mapping
from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.convolution_module import ConvolutionModuleSpec
from txexport.spec.efficient_attention import SparseAttentionSpec
from txexport.spec.enums import Activation, NormPlacement
from txexport.spec.latent_attention import MaskedAttentionSpec
from txexport.spec.layer_checks import check_states
from txexport.spec.norm import NormSpec
from txexport.spec.reduced_attention import ConvolvedFeedForwardSpec
from txexport.spec.relative_attention import (
    CONFORMER_ONLY,
    PositionedAttentionSpec,
    TransformerXLAttentionSpec,
)
from txexport.spec.stateful import StatefulSpec


@dataclass(frozen=True)
class FeedForwardSpec:
    """Two projections with a non-linearity between them; if `gated`, a third projection multiplies it.

    With a `clip`, the input of the non-linearity is at most `clip`, and the factor that multiplies it is
    clamped to [-clip, clip] and increased by 1 (OpenAI 2025).
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
                    "the clip applies to the factor of a gated network"
                )


@dataclass(frozen=True)
class ExpertsSpec:
    """A mixture of `num_experts` feed-forward networks, of which a router picks `top_k` for each token.

    - Weights of the outputs: the router's softmax (Shazeer et al. 2017, 2; Jiang et al. 2024, 2.1), over the
      picked experts if `normalised`, else over all. `scale` multiplies the weights.
    - `corrected`: sigmoid scores in place of the softmax, divided by the sum of the picked ones, plus
      `sum_eps`, if `normalised`; experts are picked by score plus a learned e_score_correction_bias
      (DeepSeek-AI 2025, 2.1.2).
    - `softmax_scores`: with `corrected`, softmax in place of sigmoid scores (Baidu 2025, ERNIE 4.5, 2.2).
    - `num_groups`, `top_groups`: group-limited top-k. Experts are picked from the best groups only, ranked by
      their best expert, or if `corrected` by their best two (DeepSeek-AI 2024, 2.2.2).
    - `shared`: an expert that every token passes; if `shared_gated`, a sigmoid gate scales its output (Yang
      et al. 2024, 2.2.2).
    - `router_bias`, `output_bias`: a bias of the router's scores, and of the sum of all experts.
    - `jitter`: SparseMixer (Liu et al. 2024, 2.2). Each picked expert has a softmax of its own, over itself
      and those experts, not picked before it, whose scores are lower by at most 2 jitter times the larger of
      its score and their absolute value.
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
    sum_eps: float = 1e-20
    softmax_scores: bool = False

    def __post_init__(self) -> None:
        positive(self, "num_experts", "top_k", "num_groups", "top_groups", "scale", "sum_eps")
        if self.top_k > self.num_experts:
            cannot = f"{self.top_k} of {self.num_experts} experts cannot be chosen"
            raise SpecError(f"ExpertsSpec: {cannot}; expected 1 to {self.num_experts}")
        if self.shared is not None and self.shared.hidden_size != self.hidden_size:
            raise SpecError(
                f"ExpertsSpec: the shared expert is {self.shared.hidden_size} wide, expected the others' "
                f"{self.hidden_size}"
            )
        if self.softmax_scores and not self.corrected:
            raise SpecError("ExpertsSpec: softmax_scores is True without corrected; expected False")
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
        """Raise SpecError unless the groups are equal in size and have enough experts to pick from."""
        size, rest = divmod(self.num_experts, self.num_groups)
        if rest or self.top_groups > self.num_groups:
            raise SpecError(
                f"ExpertsSpec: the best {self.top_groups} of {self.num_groups} groups of {self.num_experts} "
                "experts; expected num_groups to divide num_experts, and top_groups to be at most num_groups"
            )
        if self.num_groups > 1 and (self.top_groups * size < self.top_k or (self.corrected and size < 2)):
            raise SpecError(
                f"ExpertsSpec: {self.top_k} experts from {self.top_groups} groups of {size}; expected top_k "
                "to be at most the number of experts in these groups, and two experts a group with corrected"
            )
        if self.num_groups > 1 and self.normalised and not self.corrected:
            raise SpecError(
                "ExpertsSpec: normalised is True with groups of experts, but no architecture takes a softmax "
                "over the experts picked from groups; expected normalised=False, or corrected=True"
            )

    @property
    def hidden_size(self) -> int:
        """Width of a token."""
        return self.expert.hidden_size


@dataclass(frozen=True)
class AdapterSpec:
    """A norm and a small network after a layer, in a residual of their own (Houlsby et al. 2019, 2.1)."""

    norm: NormSpec
    feed_forward: FeedForwardSpec

    def __post_init__(self) -> None:
        if self.norm.size != self.hidden_size:
            raise SpecError(f"AdapterSpec: norm is {self.norm.size} wide, feed_forward {self.hidden_size}")

    @property
    def hidden_size(self) -> int:
        """Width of a token."""
        return self.feed_forward.hidden_size


@dataclass(frozen=True)
class BlockSpec:
    """One layer: self-attention, optional cross-attention over an encoder, and the feed-forward network.

    In place of attention there may be another sublayer that mixes tokens, which keeps states between steps,
    or one `beside` it: both read the output of one norm, and the sum of their outputs is added. A layer
    without `feed_forward` has the first sublayer alone.
    With `skip_attention_norm`, attention reads the layer's input without a norm. `layer_scale` multiplies
    each sublayer's output by a learned vector (Touvron et al. 2021, 3.1), `residual_scale` by a number. An
    `adapter` follows the layer.

    With a `convolution`, it is a layer of a Conformer (Gulati et al. 2020, 2.4): half the output of a
    feed-forward network is added, that of attention, that of the convolution, and half that of another
    network of the same sizes. Each reads the output of a norm, and one more norm follows the last.
    """

    attention: MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec | StatefulSpec
    feed_forward: FeedForwardSpec | ExpertsSpec | ConvolvedFeedForwardSpec | None
    norm: NormSpec
    placement: NormPlacement
    cross_attention: AttentionSpec | None = None
    skip_attention_norm: bool = False
    layer_scale: bool = False
    residual_scale: float = 1.0
    adapter: AdapterSpec | None = None
    convolution: ConvolutionModuleSpec | None = None
    beside: StatefulSpec | None = None

    def __post_init__(self) -> None:
        positive(self, "residual_scale")
        self._check_conformer()
        width = self.attention.hidden_size
        for part in (self.feed_forward, self.cross_attention, self.adapter, self.convolution, self.beside):
            if part is not None and part.hidden_size != width:
                raise SpecError(
                    f"BlockSpec: {type(part).__name__} is {part.hidden_size} wide, attention {width}"
                )
        if self.norm.size != width:
            raise SpecError(f"BlockSpec: norm is {self.norm.size} wide, attention {width}")
        check_states(self)
        if self.cross_attention is not None:
            self._check_cross(self.cross_attention)
        if self.skip_attention_norm and self.placement != NormPlacement.PRE:
            raise SpecError(
                f"BlockSpec: skip_attention_norm with placement '{self.placement}', expected "
                f"'{NormPlacement.PRE}': only a pre-norm block can leave its first norm out"
            )
        crossed = self.cross_attention is not None
        mixed = isinstance(self.feed_forward, ExpertsSpec)
        plain = NormPlacement.PRE, NormPlacement.POST, NormPlacement.RES_POST
        if mixed and (self.placement not in plain or crossed or self.layer_scale):
            raise SpecError(
                f"BlockSpec: experts with placement '{self.placement}', layer_scale={self.layer_scale} and "
                f"{'a' if crossed else 'no'} cross attention; a mixture of experts needs a plain "
                f"block: expected one of {', '.join(plain)}, False and none"
            )

    def _check_conformer(self) -> None:
        """Raise SpecError where the block has parts that a Conformer's has not, or the reverse."""
        kind = type(self.attention).__name__
        if self.convolution is None:
            if isinstance(self.attention, CONFORMER_ONLY):
                raise SpecError(
                    f"BlockSpec: {kind} without a convolution; no architecture but a Conformer has it"
                )
            return
        known = (AttentionSpec, TransformerXLAttentionSpec, *CONFORMER_ONLY)
        switches = self.skip_attention_norm, self.layer_scale, self.residual_scale != 1
        if (
            not isinstance(self.attention, known)
            or not isinstance(self.feed_forward, FeedForwardSpec)
            or self.placement != NormPlacement.PRE
            or self.cross_attention is not None
            or self.adapter is not None
            or any(switches)
        ):
            raise SpecError(
                f"BlockSpec: convolution with {kind}, {type(self.feed_forward).__name__}, placement "
                f"'{self.placement}', skip_attention_norm, layer_scale or residual_scale; expected one of "
                f"{', '.join(one.__name__ for one in known)}, FeedForwardSpec, '{NormPlacement.PRE}', none"
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
                "attention reads vectors of another stack"
            )
        if cross.rotary is not None or cross.head_norm is not None:
            field = "rotary" if cross.rotary is not None else "head_norm"
            raise SpecError(
                f"BlockSpec: cross_attention.{field} is given, expected None: "
                "cross attention has no RoPE and no head norm"
            )
        if cross.sinks:
            raise SpecError(
                "BlockSpec: cross_attention.sinks is True, expected False: no architecture has attention "
                "sinks in cross attention"
            )
        if self.placement in (NormPlacement.SANDWICH, NormPlacement.RES_POST, NormPlacement.DOUBLE_POST):
            raise SpecError(
                f"BlockSpec: placement is '{self.placement}', but no architecture combines it with cross "
                f"attention; expected '{NormPlacement.PRE}' or '{NormPlacement.POST}'"
            )

    @property
    def sublayers(self) -> tuple[str, ...]:
        """The names of its sublayers, in order."""
        if self.convolution is not None:
            return ("feed_forward", "attention", "convolution", "last_feed_forward")
        beside = ("beside",) if self.beside is not None else ()
        crossed = ("cross_attention",) if self.cross_attention is not None else ()
        adapted = ("adapter",) if self.adapter is not None else ()
        fed = ("feed_forward",) if self.feed_forward is not None else ()
        return ("attention", *beside, *crossed, *fed, *adapted)

    @property
    def states(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps but keys and values, by kind; else empty."""
        if self.beside is not None:
            return self.beside.states
        return self.attention.states if isinstance(self.attention, StatefulSpec) else {}

    @property
    def has_keys(self) -> bool:
        """True where a decoder's layer keeps keys and values between steps."""
        return not isinstance(self.attention, StatefulSpec)

    @property
    def dense(self) -> AttentionSpec:
        """The block's attention as an AttentionSpec; call it only for a block of dense attention."""
        assert isinstance(self.attention, AttentionSpec)
        return self.attention

    @property
    def masked(self) -> MaskedAttentionSpec:
        """The block's attention, which takes a mask of query and key pairs and may have a cache."""
        assert isinstance(self.attention, MaskedAttentionSpec)
        return self.attention
