"""Stacks of layers over an image or a sound."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError
from txexport.spec.attention import AttentionSpec
from txexport.spec.frames import FramesSpec
from txexport.spec.gated_frames import GatedFramesSpec
from txexport.spec.layer import BlockSpec
from txexport.spec.layer_checks import check_layers, check_no_crossing
from txexport.spec.length_adapter import LengthAdapterSpec
from txexport.spec.naflex import FlattenedPatchesSpec, NaflexSpec
from txexport.spec.norm import NormSpec
from txexport.spec.packed import PackedSpec
from txexport.spec.patch_bias_attention import PatchBiasAttentionSpec
from txexport.spec.relative_attention import TransformerXLAttentionSpec
from txexport.spec.relative_position import (
    RelativeSpec,
    SinusoidVectorsSpec,
)
from txexport.spec.rotary import RotarySpec
from txexport.spec.signal_embedding import LogMelSpec, PatchSpec, SpectrogramSpec
from txexport.spec.squeeze import SqueezeSpec
from txexport.spec.subsampled import SubsampledSpec
from txexport.spec.waveform import WaveformSpec
from txexport.spec.waveform_stem import WaveformStemSpec


@dataclass(frozen=True)
class SignalStackSpec:
    """As TextStackSpec, with bidirectional attention over the embeddings of an image or a sound.

    RoPE rotates patches by their rows and columns, and vectors of a sound by their order. `relative` are the
    vectors of distances that Transformer-XL attention projects, or the bias that gated attention adds. With
    `layer_positions`, each layer but the first adds a table of positions of its own to the patches. With a
    `squeeze`, the layers of a waveform read fewer vectors than the stack returns; with a `length_adapter`, it
    returns fewer of a sound than its layers read.
    """

    embedding: (
        PatchSpec
        | NaflexSpec
        | PackedSpec
        | LogMelSpec
        | SpectrogramSpec
        | WaveformSpec
        | WaveformStemSpec
        | FlattenedPatchesSpec
        | FramesSpec
        | GatedFramesSpec
        | SubsampledSpec
    )
    blocks: tuple[BlockSpec, ...]
    num_layers: int
    final_norm: NormSpec | None = None
    relative: RelativeSpec | SinusoidVectorsSpec | None = None
    layer_positions: bool = False
    squeeze: SqueezeSpec | None = None
    length_adapter: LengthAdapterSpec | None = None

    causal: ClassVar[bool] = False
    has_cross_attention: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_layers(self)
        check_no_crossing(self, self.blocks)
        kinds = [
            block.attention
            for block in self.blocks
            if block.convolution is None or isinstance(block.attention, AttentionSpec)
        ]
        if any(kind.causal or kind.token_masks or (kind.window and not self.packed) for kind in kinds):
            raise SpecError(
                "SignalStackSpec: attention is causal or has token masks or a window; expected none of them "
                "over images and sounds, but windows over packed patches"
            )
        self._check_packed()
        patched = isinstance(self.embedding, PatchSpec)
        if self.rotary is not None and self.rotary.axes and patched:
            self._check_axes(self.rotary)
        elif (
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
            biased = any(isinstance(kind, PatchBiasAttentionSpec) for kind in kinds)
            positioned = self.embedding.positioned or biased
        else:
            positioned = not isinstance(self.embedding, WaveformStemSpec | PackedSpec)
        rotations = {kind.rotary for kind in kinds if isinstance(kind, AttentionSpec)}
        rotated = any(rotary is not None for rotary in rotations)
        if len(rotations) > 1 or positioned == rotated or rotated != (self.rotary is not None):
            raise SpecError(
                f"SignalStackSpec: {len(rotations)} different rotary settings over "
                f"{type(self.embedding).__name__} with positioned={positioned}; expected one for all layers "
                "if the embedding has no positions, and None otherwise"
            )
        tabled = self.patches is not None and self.patches.positioned and self.patches.any_size
        if self.layer_positions and not tabled:
            raise SpecError(
                f"SignalStackSpec: layer_positions is True over {type(self.embedding).__name__}; expected "
                "patches with positions that are interpolated"
            )
        self._check_gates()
        self._check_conformer()
        self._check_resampling()

    def _check_packed(self) -> None:
        """Raise SpecError unless attention over packed patches rotates by row and column."""
        if self.packed is None:
            return
        for block in self.blocks:
            kind = block.attention
            if not isinstance(kind, AttentionSpec) or kind.rotary is None or {*kind.rotary.axes} != {0, 1}:
                raise SpecError(
                    f"SignalStackSpec: {type(kind).__name__} over packed patches; expected attention with "
                    "rotary positions on axes 0 and 1, rows and columns"
                )
            if kind.unmasked or (kind.window or 0) % self.packed.merged:
                raise SpecError(
                    f"SignalStackSpec: unmasked is {kind.unmasked} and the window {kind.window} over packed "
                    f"patches; expected False and multiples of {self.packed.merged}"
                )

    def _check_axes(self, rotary: RotarySpec) -> None:
        """Raise SpecError unless patches alone rotate by their rows and columns, as whole numbers."""
        patches = self.patches
        assert patches is not None
        others = patches.tokens + patches.registers + patches.detection_tokens
        if {*rotary.axes} != {0, 1} or others:
            raise SpecError(
                f"SignalStackSpec: axes {rotary.axes} and {others} vectors beside patches; expected 0 and 1, "
                "rows and columns, and none"
            )

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

    def _check_resampling(self) -> None:
        """Raise SpecError unless a squeeze and a length adapter fit the vectors of a sound."""
        sound, squeeze, adapter = self.embedding, self.squeeze, self.length_adapter
        if squeeze is not None:
            bare = isinstance(sound, WaveformSpec) and (sound.position_kernel or sound.final_norm) is None
            squeeze.check_around(type(sound).__name__, bare, self.hidden_size)
        if adapter is None:
            return
        if not isinstance(sound, WaveformSpec | FramesSpec) or squeeze is not None:
            raise SpecError(
                f"SignalStackSpec: length_adapter is given for {type(sound).__name__} and squeeze {squeeze}; "
                "expected None, or a waveform or frames without squeeze"
            )
        adapter.check_behind(self.hidden_size, self.masked)

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
        return first.attention.rotary if isinstance(first.attention, AttentionSpec) else None

    @property
    def masked(self) -> bool:
        """True where the stack reads an attention mask beside its signal."""
        read = WaveformSpec | FramesSpec | GatedFramesSpec | SubsampledSpec | LogMelSpec
        read |= NaflexSpec | FlattenedPatchesSpec
        return isinstance(self.embedding, read) and self.embedding.masked

    @property
    def limit(self) -> int | None:
        """The most vectors of a sound of any length; None where there is no limit, or one size alone."""
        return self.embedding.max_length if isinstance(self.embedding, GatedFramesSpec) else None

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Kernels and strides by which the vectors of a masked sound are counted; () for other signals."""
        signals = WaveformSpec | FramesSpec | GatedFramesSpec | SubsampledSpec | FlattenedPatchesSpec
        if not isinstance(self.embedding, signals):
            return ()
        return self.embedding.counted + (() if self.length_adapter is None else self.length_adapter.counted)

    @property
    def patches(self) -> PatchSpec | None:
        """The embedding of patches, whose rows and columns are positions of 2-D RoPE; None over sounds."""
        return self.embedding if isinstance(self.embedding, PatchSpec) else None

    @property
    def packed(self) -> PackedSpec | None:
        """The embedding of packed patches; None for other signals."""
        return self.embedding if isinstance(self.embedding, PackedSpec) else None

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.embedding.hidden_size

    @property
    def layers(self) -> tuple[BlockSpec, ...]:
        """The block of every layer."""
        return tuple(self.blocks[layer % len(self.blocks)] for layer in range(self.num_layers))
