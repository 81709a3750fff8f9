"""Layers: attention, a feed-forward network or experts, and the norms around them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.convolution_module import ConvolutionModuleSpec
from txexport.spec.efficient_attention import SparseAttentionSpec
from txexport.spec.enums import NormPlacement
from txexport.spec.feed_forward import DenseAndExpertsSpec, ExpertsSpec, FeedForwardSpec
from txexport.spec.latent_attention import MaskedAttentionSpec
from txexport.spec.layer_checks import check_gated, check_joined, check_layout, check_mixing, check_states
from txexport.spec.layer_inputs import LayerInputSpec
from txexport.spec.layout import LayoutFlowSpec
from txexport.spec.network import NetworkSpec
from txexport.spec.norm import NormSpec
from txexport.spec.relative_attention import (
    CONFORMER_ONLY,
    PositionedAttentionSpec,
    TransformerXLAttentionSpec,
)
from txexport.spec.rwkv import ChannelMixSpec
from txexport.spec.shared_attention import SharedAttentionSpec
from txexport.spec.source_attention import SourceAttentionSpec
from txexport.spec.stateful import StatefulSpec
from txexport.spec.streams import AugmentedResidualSpec, StreamsSpec

# Placements of norms in a layer with cross attention.
CROSSED = f"'{NormPlacement.PRE}', '{NormPlacement.POST}' or '{NormPlacement.SANDWICH}'"


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
    `adapter` follows the layer, or a network that reads the layer's own input, `layer_input`. With an
    `output_scale`, a learned number multiplies what the layer returns. With an `augmented_residual`, the
    input of attention takes part in the sum behind it. With `streams`, a token has several vectors, of which
    the sublayers read the first. Where the layer is `gated`, the tanh of a learned number
    multiplies each sublayer's output (Alayrac et al. 2022, 2.2). A flow of `layout` beside that of the words
    shares their attention.

    Where it `joins_embedding`, attention reads a norm of the hidden states joined with the embedded tokens,
    and the network a norm of what attention gives, both without residuals. A projection of the result is
    added to the input of the sublayer `beside`, which has a norm and the layer's only residual (Glorioso et
    al. 2024, Zamba).

    With a `convolution`, it is a layer of a Conformer (Gulati et al. 2020, 2.4): half the output of a
    feed-forward network is added, that of attention, that of the convolution, and half that of another
    network of the same sizes. Each reads the output of a norm, and one more norm follows the last.
    """

    attention: MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec | StatefulSpec
    feed_forward: NetworkSpec | None
    norm: NormSpec
    placement: NormPlacement
    cross_attention: AttentionSpec | None = None
    skip_attention_norm: bool = False
    layer_scale: bool = False
    residual_scale: float = 1.0
    adapter: AdapterSpec | None = None
    convolution: ConvolutionModuleSpec | None = None
    beside: StatefulSpec | None = None
    layer_input: LayerInputSpec | None = None
    output_scale: bool = False
    augmented_residual: AugmentedResidualSpec | None = None
    streams: StreamsSpec | None = None
    gated: bool = False
    layout: LayoutFlowSpec | None = None
    joins_embedding: bool = False

    def __post_init__(self) -> None:
        positive(self, "residual_scale")
        self._check_conformer()
        width = self.attention.hidden_size
        sublayers = self.cross_attention, self.adapter, self.convolution, self.beside
        for part in (self.feed_forward, *sublayers, self.layer_input, self.augmented_residual):
            if part is not None and part.hidden_size != width:
                raise SpecError(
                    f"BlockSpec: {type(part).__name__} is {part.hidden_size} wide, attention {width}"
                )
        if self.norm.size != width:
            raise SpecError(f"BlockSpec: norm is {self.norm.size} wide, attention {width}")
        check_states(self)
        self._check_streams()
        if self.layer_input is not None and self.layer_input.norm.size != width:
            raise SpecError(
                f"BlockSpec: the norm of layer_input is {self.layer_input.norm.size} wide, attention {width}"
            )
        if self.shared_layer is not None and self.cross_attention is not None:
            raise SpecError(
                "BlockSpec: SharedAttentionSpec with cross attention; no architecture has both: expected None"
            )
        if self.cross_attention is not None:
            self._check_cross(self.cross_attention)
        check_gated(self)
        check_layout(self)
        check_joined(self)
        check_mixing(self)
        if self.skip_attention_norm and self.placement != NormPlacement.PRE:
            raise SpecError(
                f"BlockSpec: skip_attention_norm with placement '{self.placement}', expected "
                f"'{NormPlacement.PRE}': only a pre-norm block can leave its first norm out"
            )
        mixed = isinstance(self.feed_forward, ExpertsSpec)
        limited = isinstance(self.feed_forward, ExpertsSpec) and self.feed_forward.capacity is not None
        if limited and isinstance(self.attention, AttentionSpec) and self.attention.causal:
            raise SpecError(
                "BlockSpec: capacity with causal attention; expected None, as tokens may come one by one"
            )
        plain = [one for one in NormPlacement if one != NormPlacement.DOUBLE_POST]
        if mixed and (self.placement not in plain or self.layer_scale):
            raise SpecError(
                f"BlockSpec: experts with placement '{self.placement}' and layer_scale={self.layer_scale}; a "
                f"mixture of experts needs a plain block: expected one of {', '.join(plain)}, and False"
            )
        if isinstance(self.feed_forward, DenseAndExpertsSpec) and (
            self.placement != NormPlacement.SANDWICH or self.layer_scale
        ):
            raise SpecError(
                f"BlockSpec: DenseAndExpertsSpec with placement '{self.placement}' and layer_scale="
                f"{self.layer_scale}; expected '{NormPlacement.SANDWICH}' and False"
            )

    def _check_streams(self) -> None:
        """Raise SpecError for parts beside several vectors of a token, or a residual, that none has."""
        residual = self.augmented_residual
        parts = self.cross_attention, self.adapter, self.convolution, self.beside
        for name, part in (("streams", self.streams), ("augmented_residual", residual)):
            plain = self.placement == NormPlacement.SANDWICH and self.attends and not self.output_scale
            if part is not None and (not plain or any(one is not None for one in parts)):
                raise SpecError(
                    f"BlockSpec: {name} with placement '{self.placement}', output_scale={self.output_scale}, "
                    "or cross attention, an adapter, a convolution or states; no architecture has both: "
                    f"expected '{NormPlacement.SANDWICH}', False and none"
                )
        if self.streams is not None and self.layer_input is None:
            raise SpecError("BlockSpec: streams without layer_input; no architecture has them alone")
        if self.streams is not None and self.streams.norm.size != self.attention.hidden_size:
            raise SpecError(
                f"BlockSpec: the norm of streams is {self.streams.norm.size} wide, attention "
                f"{self.attention.hidden_size}"
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
        if self.placement == NormPlacement.PARALLEL:
            raise SpecError(
                f"BlockSpec: placement is '{self.placement}', but three sublayers in parallel are not known "
                f"in any architecture; expected {CROSSED}"
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
        if self.placement in (NormPlacement.RES_POST, NormPlacement.DOUBLE_POST):
            raise SpecError(
                f"BlockSpec: placement is '{self.placement}', but no architecture combines it with cross "
                f"attention; expected {CROSSED}"
            )

    @property
    def sublayers(self) -> tuple[str, ...]:
        """The names of its sublayers, in order."""
        if self.convolution is not None:
            return ("feed_forward", "attention", "convolution", "last_feed_forward")
        if self.joins_embedding:
            return ("attention", "feed_forward", "project", "beside")
        beside = ("beside",) if self.beside is not None else ()
        crossed = ("cross_attention",) if self.cross_attention is not None else ()
        adapted = ("adapter",) if self.adapter is not None else ()
        fed = ("feed_forward",) if self.feed_forward is not None else ()
        residual = ("augmented_residual",) if self.augmented_residual is not None else ()
        vector = ("layer_input",) if self.layer_input is not None else ()
        streams = ("streams",) if self.streams is not None else ()
        layout = ("layout",) if self.layout is not None else ()
        return ("attention", *beside, *crossed, *residual, *fed, *adapted, *vector, *streams, *layout)

    @property
    def input_norm(self) -> NormSpec:
        """The norm of attention's input, twice as wide where embeddings are joined to it."""
        return replace(self.norm, size=2 * self.norm.size) if self.joins_embedding else self.norm

    @property
    def experts(self) -> ExpertsSpec | None:
        """Its mixture of experts, if it has one."""
        kind = self.feed_forward
        if isinstance(kind, DenseAndExpertsSpec):
            return kind.experts
        return kind if isinstance(kind, ExpertsSpec) else None

    @property
    def states(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps beside keys and values, by kind; empty for nothing."""
        network = self.feed_forward.states if isinstance(self.feed_forward, ChannelMixSpec) else {}
        mixer = self.attention if self.beside is None else self.beside
        return {**mixer.states, **network} if isinstance(mixer, StatefulSpec) else network

    @property
    def new_tokens(self) -> tuple[str, ...]:
        """Names of the inputs that its sublayer with states has beside vectors; empty where it has none."""
        mixer = self.attention if self.beside is None else self.beside
        return mixer.new_tokens if isinstance(mixer, StatefulSpec) else ()

    @property
    def has_keys(self) -> bool:
        """True where a decoder's layer keeps keys and values between steps."""
        return not isinstance(self.attention, StatefulSpec | SharedAttentionSpec | SourceAttentionSpec)

    @property
    def attends(self) -> bool:
        """True where it scores keys, its own or another layer's."""
        return not isinstance(self.attention, StatefulSpec)

    @property
    def shared_layer(self) -> int | None:
        """The number of the layer whose keys and values it reads; None for its own, or none."""
        return self.attention.layer if isinstance(self.attention, SharedAttentionSpec) else None

    @property
    def crosses(self) -> bool:
        """True where it attends to images in place of tokens."""
        return isinstance(self.attention, SourceAttentionSpec)

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
