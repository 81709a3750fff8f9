"""Stacks of layers: over tokens, or over an image or a sound."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.efficient_attention import LinformerAttentionSpec
from txexport.spec.embedding import EmbeddingSpec
from txexport.spec.frames import FramesSpec
from txexport.spec.layer import BlockSpec
from txexport.spec.norm import NormSpec
from txexport.spec.relative_attention import DisentangledAttentionSpec, TransformerXLAttentionSpec
from txexport.spec.relative_position import (
    AlibiSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RoundedAlibiSpec,
    SinusoidVectorsSpec,
)
from txexport.spec.rotary import RotarySpec
from txexport.spec.signal_embedding import LogMelSpec, PatchSpec, SpectrogramSpec
from txexport.spec.subsampled import SubsampledSpec
from txexport.spec.waveform import WaveformSpec
from txexport.spec.waveform_stem import WaveformStemSpec

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
    `relative` is the position bias that all layers share, or the vectors of relative positions that they
    project.
    """

    embedding: EmbeddingSpec
    blocks: tuple[BlockSpec, ...]
    num_layers: int
    final_norm: NormSpec | None = None
    relative: RelativeSpec | AlibiSpec | RoundedAlibiSpec | VectorsSpec | None = None

    def __post_init__(self) -> None:
        _check_layers(self)
        first = self.blocks[0]
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
        heads = first.attention.num_heads
        if isinstance(self.relative, AlibiSpec | RoundedAlibiSpec) and len(self.relative.slopes) != heads:
            raise SpecError(f"TextStackSpec: {len(self.relative.slopes)} slopes for {heads} heads")

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
    def causal(self) -> bool:
        """True where attention is causal."""
        return self.blocks[0].attention.causal

    @property
    def has_cross_attention(self) -> bool:
        """True where layers have cross-attention."""
        return self.blocks[0].cross_attention is not None

    @property
    def global_tokens(self) -> bool:
        """True where a layer takes a mask of global tokens."""
        return any("global_attention_mask" in block.attention.token_masks for block in self.blocks)


@dataclass(frozen=True)
class SignalStackSpec:
    """As TextStackSpec, with bidirectional attention over the embeddings of an image or a sound.

    RoPE rotates patches by their rows and columns, and vectors of a sound by their order. `relative` are the
    vectors of distances that Transformer-XL attention projects, or the bias that gated attention adds.
    """

    embedding: (
        PatchSpec
        | LogMelSpec
        | SpectrogramSpec
        | WaveformSpec
        | WaveformStemSpec
        | FramesSpec
        | SubsampledSpec
    )
    blocks: tuple[BlockSpec, ...]
    num_layers: int
    final_norm: NormSpec | None = None
    relative: RelativeSpec | SinusoidVectorsSpec | None = None

    causal: ClassVar[bool] = False
    has_cross_attention: ClassVar[bool] = False
    limit: ClassVar[None] = None  # no tokens come in

    def __post_init__(self) -> None:
        _check_layers(self)
        kinds = [
            block.attention
            for block in self.blocks
            if block.convolution is None or isinstance(block.attention, AttentionSpec)
        ]
        if any(kind.causal or kind.token_masks or kind.window for kind in kinds):
            raise SpecError(
                "SignalStackSpec: attention is causal or has token masks or a window; expected none of them "
                "over images and sounds"
            )
        patched = isinstance(self.embedding, PatchSpec)
        if (
            self.rotary is not None
            and patched
            and (len(self.rotary.frequencies) % 2 or self.rotary.scale != 1)
        ):
            raise SpecError(
                f"SignalStackSpec: {len(self.rotary.frequencies)} frequencies and scale {self.rotary.scale}; "
                "half of them rotate by a patch's row, half by its column: expected an even number, and 1"
            )
        if self.masked and any(isinstance(kind, AttentionSpec) and kind.unmasked for kind in kinds):
            raise SpecError("SignalStackSpec: attention is unmasked over a masked signal; expected False")
        if isinstance(self.embedding, PatchSpec):
            positioned = self.embedding.positioned
        else:
            positioned = not isinstance(self.embedding, WaveformStemSpec)
        rotations = {kind.rotary for kind in kinds if isinstance(kind, AttentionSpec)}
        rotated = any(rotary is not None for rotary in rotations)
        if len(rotations) > 1 or positioned == rotated or rotated != (self.rotary is not None):
            raise SpecError(
                f"SignalStackSpec: {len(rotations)} different rotary settings over "
                f"{type(self.embedding).__name__} with positioned={positioned}; expected one for all layers "
                "if the embedding has no positions, and None otherwise"
            )
        self._check_gates()
        self._check_conformer()

    def _check_gates(self) -> None:
        """Raise SpecError unless a bias of relative positions fits the attention of every block."""
        table = isinstance(self.relative, RelativeSpec)
        for block in self.blocks:
            kind = block.attention
            gated = isinstance(kind, AttentionSpec) and kind.gated
            biased = isinstance(kind, AttentionSpec) and kind.has_position_bias
            if gated != table or biased != table:
                raise SpecError(
                    f"SignalStackSpec: has_position_bias is {biased}, gated {gated} and relative "
                    f"{self.relative}; expected both exactly if relative is a RelativeSpec: over signals, "
                    "biases are gated"
                )
        if not isinstance(self.relative, RelativeSpec):
            return
        if self.relative.every_layer or not self.relative.bidirectional:
            raise SpecError(
                f"SignalStackSpec: relative is {self.relative}, expected one table of both directions"
            )

    def _check_conformer(self) -> None:
        """Raise SpecError unless distances fit the attention of blocks with a convolution."""
        for block in self.blocks:
            projected = isinstance(block.attention, TransformerXLAttentionSpec)
            segmented = isinstance(block.attention, TransformerXLAttentionSpec) and block.attention.segmented
            if projected != isinstance(self.relative, SinusoidVectorsSpec) or segmented:
                stated = "None" if self.relative is None else "given"
                raise SpecError(
                    f"SignalStackSpec: relative is {stated} for {type(block.attention).__name__}; expected "
                    "it exactly for TransformerXLAttentionSpec with segmented=False"
                )
        if not isinstance(self.relative, SinusoidVectorsSpec):
            return
        if 2 * len(self.relative.frequencies) != self.hidden_size:
            raise SpecError(
                f"SignalStackSpec: {len(self.relative.frequencies)} frequencies make vectors of "
                f"{2 * len(self.relative.frequencies)} numbers, but the stack is {self.hidden_size} wide"
            )

    @property
    def rotary(self) -> RotarySpec | None:
        """The rotation by position; None where positions are added."""
        first = self.blocks[0]
        return first.dense.rotary if first.convolution is None else None

    @property
    def masked(self) -> bool:
        """True where the stack reads an attention mask beside its signal."""
        sounds = WaveformSpec | FramesSpec | SubsampledSpec
        return isinstance(self.embedding, sounds) and self.embedding.masked

    @property
    def patches(self) -> PatchSpec | None:
        """The embedding of patches, whose rows and columns are positions of 2-D RoPE; None over sounds."""
        return self.embedding if isinstance(self.embedding, PatchSpec) else None

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.embedding.hidden_size

    @property
    def layers(self) -> tuple[BlockSpec, ...]:
        """The block of every layer."""
        return tuple(self.blocks[layer % len(self.blocks)] for layer in range(self.num_layers))


StackSpec = TextStackSpec | SignalStackSpec


def _check_layers(stack: StackSpec) -> None:
    """Raise SpecError if blocks, their number, the embedding and the final norm contradict each other."""
    positive(stack, "num_layers")
    name, width = type(stack).__name__, stack.hidden_size
    if not 1 <= len(stack.blocks) <= stack.num_layers:
        raise SpecError(f"{name}: {len(stack.blocks)} blocks for {stack.num_layers} layers")
    for block in stack.blocks:
        if block.attention.hidden_size != width:
            raise SpecError(
                f"{name}: the embedding is {width} wide, its blocks {block.attention.hidden_size}"
            )
    if stack.final_norm is not None and stack.final_norm.size != width:
        raise SpecError(f"{name}: final norm is {stack.final_norm.size} wide, the stack {width}")
