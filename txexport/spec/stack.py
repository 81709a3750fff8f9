"""Stacks of layers over tokens, and all kinds of stacks."""

from dataclasses import dataclass

from txexport.errors import SpecError
from txexport.spec.anchor_stack import AnchorStackSpec
from txexport.spec.attention import AttentionSpec
from txexport.spec.conditional_stack import ConditionalStackSpec
from txexport.spec.convolved_attention import ConvolvedAttentionSpec
from txexport.spec.deformable_stack import DeformableStackSpec
from txexport.spec.distribution_stack import DistributionStackSpec
from txexport.spec.efficient_attention import LinformerAttentionSpec
from txexport.spec.embedding import EmbeddingSpec
from txexport.spec.fourier_mixing import FourierMixingSpec
from txexport.spec.layer import BlockSpec
from txexport.spec.layer_checks import check_layers
from txexport.spec.layer_inputs import LayerInputsSpec
from txexport.spec.layout import LayoutEmbeddingSpec
from txexport.spec.map_stack import MapStackSpec
from txexport.spec.mixed_stack import MixedStackSpec
from txexport.spec.norm import NormSpec
from txexport.spec.page import BoxTablesSpec, PageBiasSpec
from txexport.spec.proposal_stack import ProposalStackSpec
from txexport.spec.query_stack import QueryStackSpec
from txexport.spec.relative_attention import DisentangledAttentionSpec, TransformerXLAttentionSpec
from txexport.spec.relative_position import (
    AlibiSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RoundedAlibiSpec,
    SinusoidVectorsSpec,
)
from txexport.spec.shared_attention import SharedAttentionSpec
from txexport.spec.signal_stack import SignalStackSpec
from txexport.spec.staged import StagedStackSpec
from txexport.spec.streams import StreamsSpec
from txexport.spec.tiled_stack import TiledStackSpec

VectorsSpec = RelativeVectorsSpec | SinusoidVectorsSpec
# Kinds of attention that read vectors of relative positions, and the kind of vectors.
READ_VECTORS: dict[type, type] = {
    DisentangledAttentionSpec: RelativeVectorsSpec,
    TransformerXLAttentionSpec: SinusoidVectorsSpec,
}
SEGMENTS = 4  # token types of a pair and its special tokens; attention tests them for equality


@dataclass(frozen=True)
class TextStackSpec:
    """An embedding of tokens and `num_layers` layers; `final_norm` closes a pre-norm stack.

    Layer i has the block `blocks[i % len(blocks)]`, so one block is enough for a stack of equal layers.
    `relative` is the position bias that all layers share, of boxes on a page too, or the vectors of relative
    positions that they project. With `layer_inputs`, each layer reads a vector made of the token's id and
    embedding. With a `layout`, each layer has a second flow, of the words' layout on a page. An encoder with
    a `masked_output` returns vectors of 0 for padding.
    """

    embedding: EmbeddingSpec
    blocks: tuple[BlockSpec, ...]
    num_layers: int
    final_norm: NormSpec | None = None
    relative: RelativeSpec | AlibiSpec | RoundedAlibiSpec | PageBiasSpec | VectorsSpec | None = None
    layer_inputs: LayerInputsSpec | None = None
    layout: LayoutEmbeddingSpec | None = None
    masked_output: bool = False

    def __post_init__(self) -> None:
        if self.masked_output and self.causal:
            raise SpecError(
                "TextStackSpec: masked_output is True, but attention is causal; expected False, or an encoder"
            )
        check_layers(self)
        self._check_shared()
        self._check_layer_inputs()
        self._check_layout()
        first = next((block for block in self.blocks if block.has_keys), self.blocks[0])
        if self.stateful and self.relative is not None:
            raise SpecError("TextStackSpec: relative is given, expected None in a stack with states")
        if first.has_keys is False and any("first" in block.new_tokens for block in self.blocks):
            raise SpecError(
                "TextStackSpec: RgLruSpec without a layer that keeps keys; expected one or more, whose "
                "length tells which token is the first"
            )
        for block in self.blocks:
            if block.attention.has_position_bias != (self.relative is not None):
                given = "None" if self.relative is None else "given"
                raise SpecError(
                    f"TextStackSpec: has_position_bias is {block.attention.has_position_bias} and relative "
                    f"{given}; expected True exactly if relative is given"
                )
            for kind, read in READ_VECTORS.items():
                if isinstance(block.attention, kind) != isinstance(self.relative, read):
                    kind_name = type(block.attention).__name__
                    raise SpecError(
                        f"TextStackSpec: {kind_name} with {type(self.relative).__name__}; expected "
                        f"{kind.__name__} with {read.__name__}, or neither"
                    )
            if block.convolution is not None:
                raise SpecError("TextStackSpec: a block has a convolution, expected None over texts")
            if isinstance(block.attention, AttentionSpec) and block.attention.gated:
                raise SpecError("TextStackSpec: attention is gated, expected gated=False over texts")
            if (block.cross_attention is None) != (first.cross_attention is None):
                count = sum(block.cross_attention is not None for block in self.blocks)
                raise SpecError(
                    f"TextStackSpec: {count} of {len(self.blocks)} blocks have cross attention; expected "
                    "that either every layer has cross attention or none"
                )
            if block.attention.causal != first.attention.causal:
                count = sum(block.attention.causal for block in self.blocks)
                raise SpecError(
                    f"TextStackSpec: {count} of {len(self.blocks)} blocks are causal; expected that "
                    "either every layer is causal or none"
                )
            sums, limit = block.attention, self.limit
            if isinstance(sums, LinformerAttentionSpec) and sums.max_length != limit:
                raise SpecError(
                    f"TextStackSpec: attention takes up to {sums.max_length} tokens, expected the limit of "
                    f"the positions, {limit}"
                )
        norm = self.relative.norm if isinstance(self.relative, RelativeVectorsSpec) else None
        if norm is not None and norm.size != self.hidden_size:
            raise SpecError(
                f"TextStackSpec: the norm of relative positions is {norm.size} wide, the stack "
                f"{self.hidden_size}"
            )
        if (
            isinstance(self.relative, SinusoidVectorsSpec)
            and 2 * len(self.relative.frequencies) != self.hidden_size
        ):
            raise SpecError(
                f"TextStackSpec: {len(self.relative.frequencies)} frequencies make vectors of "
                f"{2 * len(self.relative.frequencies)} numbers, but the stack is {self.hidden_size} wide"
            )
        if isinstance(self.relative, AlibiSpec | RoundedAlibiSpec):
            slopes, heads = len(self.relative.slopes), first.attention.num_heads
            if slopes != heads:
                raise SpecError(f"TextStackSpec: {slopes} slopes for {heads} heads")

    def _check_shared(self) -> None:
        """Raise SpecError where a layer reads keys that no earlier layer has, or of other sizes."""
        for number, block in enumerate(self.blocks):  # repeated later, where the sources are earlier too
            if not isinstance(block.attention, SharedAttentionSpec):
                continue
            source, kind = block.attention.layer, block.attention.attention
            origin = self.blocks[source].attention if source < number else None
            if not isinstance(origin, AttentionSpec):
                raise SpecError(
                    f"TextStackSpec: layer {number} reads the keys and values of layer {source}; expected an "
                    "earlier layer with AttentionSpec"
                )
            if (origin.num_kv_heads, origin.head_dim) != (kind.num_kv_heads, kind.head_dim):
                raise SpecError(
                    f"TextStackSpec: layer {number} reads {kind.num_kv_heads} heads of {kind.head_dim}, but "
                    f"layer {source} has {origin.num_kv_heads} of {origin.head_dim}"
                )

    def _check_layer_inputs(self) -> None:
        """Raise SpecError unless either all layers read an input of their own, of one size, or none."""
        size = None if self.layer_inputs is None else self.layer_inputs.size
        for block in self.blocks:
            read = None if block.layer_input is None else block.layer_input.size
            if read != size:
                raise SpecError(f"TextStackSpec: layer_inputs of {size} numbers, but a layer reads {read}")
            if block.streams != self.streams:
                raise SpecError(
                    f"TextStackSpec: layers with {self.streams} and {block.streams}; expected equal streams"
                )

    def _check_layout(self) -> None:
        """Raise SpecError unless all layers have a flow of layout, which ends in the last, or none."""
        width = None if self.layout is None else self.layout.hidden_size
        flows = [block.layout for block in self.blocks]  # of as many layers, or repeated
        if any((None if flow is None else flow.hidden_size) != width for flow in flows):
            raise SpecError(f"TextStackSpec: a layout of {width} numbers, but a layer has {flows[0]}")
        ends = [flow is not None and flow.ends for flow in flows]
        ends_last = len(flows) == self.num_layers and ends == [False] * (len(flows) - 1) + [True]
        if self.layout is not None and not ends_last:
            raise SpecError("TextStackSpec: the layout must end in the last layer alone")
        if self.layout is not None and self.layout.position != self.embedding.position:
            raise SpecError(
                f"TextStackSpec: positions of the layout are {self.layout.position}, expected as of words, "
                f"{self.embedding.position}"
            )

    @property
    def boxes(self) -> BoxTablesSpec | None:
        """The tables of words' boxes on a page; None without any."""
        return self.embedding.boxes if self.layout is None else self.layout.boxes

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.embedding.hidden_size

    @property
    def limit(self) -> int | None:
        """The longest sequence, in tokens; None where there is no limit."""
        return self.embedding.position.limit

    @property
    def token_types(self) -> int:
        """The number of token types; 0 or 1 where the stack reads none."""
        segmented = any(isinstance(block.attention, TransformerXLAttentionSpec) for block in self.blocks)
        return max(self.embedding.type_vocab_size, SEGMENTS * segmented)

    @property
    def layers(self) -> tuple[BlockSpec, ...]:
        """The block of every layer."""
        return tuple(self.blocks[layer % len(self.blocks)] for layer in range(self.num_layers))

    @property
    def streams(self) -> StreamsSpec | None:
        """The several vectors of each token, equal in all layers; None for one."""
        return self.blocks[0].streams

    @property
    def stateful(self) -> bool:
        """True where a layer keeps states between steps."""
        return any(block.states for block in self.blocks)

    @property
    def has_keys(self) -> bool:
        """True where a layer of a decoder keeps keys and values between steps."""
        return any(block.has_keys for block in self.blocks)

    @property
    def crosses(self) -> bool:
        """True where layers attend to images in place of tokens."""
        return any(block.crosses for block in self.blocks)

    @property
    def causal(self) -> bool:
        """True where attention is causal."""
        return self.blocks[0].attention.causal

    @property
    def mixes_padding(self) -> bool:
        """True where padding changes the vectors of every token, or of more of them with each layer."""
        mixing = FourierMixingSpec | ConvolvedAttentionSpec
        return any(isinstance(block.attention, mixing) for block in self.blocks)

    @property
    def reads_padding(self) -> bool:
        """True where padding changes the vectors of tokens."""
        return self.embedding.trigrams or self.mixes_padding

    @property
    def has_cross_attention(self) -> bool:
        """True where layers have cross-attention."""
        return self.blocks[0].cross_attention is not None

    @property
    def global_tokens(self) -> bool:
        """True where a layer takes a mask of global tokens."""
        return any("global_attention_mask" in block.attention.token_masks for block in self.blocks)


# Stacks over an image or a sound.
MediaStackSpec = (
    SignalStackSpec
    | StagedStackSpec
    | QueryStackSpec
    | ProposalStackSpec
    | DeformableStackSpec
    | DistributionStackSpec
    | ConditionalStackSpec
    | AnchorStackSpec
    | MixedStackSpec
    | MapStackSpec
    | TiledStackSpec
)
StackSpec = TextStackSpec | MediaStackSpec


def check_stateless(owner: object, stack: StackSpec) -> None:
    """Raise SpecError where an encoder has layers with states, which are kept between a decoder's steps.

    Layers that share keys and values, or read inputs of their own, are those of decoders too.
    """
    if isinstance(stack, TiledStackSpec):
        raise SpecError(f"{type(owner).__name__}: TiledStackSpec is of a CrossVisionLanguageSpec alone")
    if isinstance(stack, TextStackSpec) and stack.boxes is not None:
        raise SpecError(f"{type(owner).__name__}: boxes of words are read by a DocumentSpec alone")
    if isinstance(stack, TextStackSpec) and (
        stack.layer_inputs is not None
        or stack.streams is not None
        or stack.crosses
        or any(block.shared_layer is not None or block.output_scale for block in stack.blocks)
        or any(block.augmented_residual is not None for block in stack.blocks)
    ):
        raise SpecError(
            f"{type(owner).__name__}: layers read layer_inputs, images, or keys and values of another layer, "
            "or have an output_scale, augmented_residual or streams; no architecture has them in an encoder"
        )
    if isinstance(stack, TextStackSpec) and stack.stateful:
        kinds = sorted({type(block.attention).__name__ for block in stack.blocks if block.states})
        raise SpecError(
            f"{type(owner).__name__}: only a decoder keeps states; blocks of an encoder have "
            f"{', '.join(kinds)}, expected attention"
        )
