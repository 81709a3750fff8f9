"""Specs as JSON values, and back.

Where a field may hold one of several classes, a value says which it is by its `type`, one of TYPES. A field
is stored under its name, or under the older one in its metadata, `stored`.
"""

import dataclasses
import functools
import math
import types
import typing
from enum import StrEnum

from txexport import spec as specs
from txexport.errors import SpecError

LEAVES: dict[type, tuple[type, ...]] = {int: (int,), float: (int, float), bool: (bool,)}
LARGEST = 2**31 - 1

TYPES: dict[str, type] = {
    "encoder": specs.EncoderSpec,
    "document": specs.DocumentSpec,
    "decoder": specs.DecoderSpec,
    "encoder_decoder": specs.EncoderDecoderSpec,
    "dual_encoder": specs.DualEncoderSpec,
    "promptable": specs.PromptableSpec,
    "open_vocabulary": specs.OpenVocabularySpec,
    "grounded": specs.GroundedSpec,
    "described_segments": specs.DescribedSegmentsSpec,
    "vision_language": specs.VisionLanguageSpec,
    "cross_vision_language": specs.CrossVisionLanguageSpec,
    "visual_retriever": specs.VisualRetrieverSpec,
    "text": specs.TextStackSpec,
    "signal": specs.SignalStackSpec,
    "staged": specs.StagedStackSpec,
    "queries": specs.QueryStackSpec,
    "proposals": specs.ProposalStackSpec,
    "conditional": specs.ConditionalStackSpec,
    "anchors": specs.AnchorStackSpec,
    "mixed": specs.MixedStackSpec,
    "deformable": specs.DeformableStackSpec,
    "distributions": specs.DistributionStackSpec,
    "maps": specs.MapStackSpec,
    "tiled": specs.TiledStackSpec,
    "tokens": specs.EmbeddingSpec,
    "patches": specs.PatchSpec,
    "naflex": specs.NaflexSpec,
    "tiles": specs.TilesSpec,
    "packed": specs.PackedSpec,
    "resnet": specs.ResNetSpec,
    "resnet_maps": specs.ResNetMapsSpec,
    "convnext": specs.ConvNextSpec,
    "masked_maps": specs.MaskedMapsSpec,
    "windowed_maps": specs.WindowedMapsSpec,
    "resnet_levels": specs.ResNetLevelsSpec,
    "hgnet_levels": specs.HGNetLevelsSpec,
    "patch_grid": specs.PatchGridSpec,
    "log_mel": specs.LogMelSpec,
    "spectrogram": specs.SpectrogramSpec,
    "spectrogram_grid": specs.SpectrogramGridSpec,
    "waveform": specs.WaveformSpec,
    "waveform_stem": specs.WaveformStemSpec,
    "flattened_patches": specs.FlattenedPatchesSpec,
    "frames": specs.FramesSpec,
    "gated_frames": specs.GatedFramesSpec,
    "subsampled": specs.SubsampledSpec,
    "relative": specs.RelativeSpec,
    "page_bias": specs.PageBiasSpec,
    "relative_vectors": specs.RelativeVectorsSpec,
    "sinusoid_vectors": specs.SinusoidVectorsSpec,
    "alibi": specs.AlibiSpec,
    "rounded_alibi": specs.RoundedAlibiSpec,
    "attention": specs.AttentionSpec,
    "latent": specs.LatentAttentionSpec,
    "shared": specs.SharedAttentionSpec,
    "source": specs.SourceAttentionSpec,
    "short_convolution": specs.ShortConvolutionSpec,
    "gated_delta": specs.GatedDeltaSpec,
    "kimi_delta": specs.KimiDeltaSpec,
    "mamba2": specs.Mamba2Spec,
    "mamba": specs.MambaSpec,
    "rg_lru": specs.RgLruSpec,
    "time_mix": specs.TimeMixSpec,
    "disentangled": specs.DisentangledAttentionSpec,
    "transformer_xl": specs.TransformerXLAttentionSpec,
    "relative_key": specs.RelativeKeyAttentionSpec,
    "rotated_input": specs.RotatedInputAttentionSpec,
    "local": specs.LocalAttentionSpec,
    "strided": specs.StridedAttentionSpec,
    "longformer": specs.LongformerAttentionSpec,
    "linformer": specs.LinformerAttentionSpec,
    "low_rank": specs.LowRankAttentionSpec,
    "performer": specs.PerformerAttentionSpec,
    "window": specs.WindowAttentionSpec,
    "grid": specs.GridAttentionSpec,
    "patch_bias": specs.PatchBiasAttentionSpec,
    "bottleneck": specs.BottleneckSpec,
    "fourier": specs.FourierMixingSpec,
    "convolved_attention": specs.ConvolvedAttentionSpec,
    "reduced": specs.ReducedAttentionSpec,
    "feed_forward": specs.FeedForwardSpec,
    "experts": specs.ExpertsSpec,
    "dense_and_experts": specs.DenseAndExpertsSpec,
    "xielu": specs.XieluFeedForwardSpec,
    "channel_mix": specs.ChannelMixSpec,
    "convolved_feed_forward": specs.ConvolvedFeedForwardSpec,
    "merging": specs.MergingSpec,
    "convolved_merging": specs.ConvolvedMergingSpec,
    "query_pooling": specs.QueryPoolingSpec,
    "neck": specs.NeckSpec,
    "map_neck": specs.MapNeckSpec,
    "depth": specs.DepthSpec,
    "staged_depth": specs.StagedDepthSpec,
    "stage_segments": specs.SegmentsSpec,
    "fused_segments": specs.FusedSegmentsSpec,
    "pyramid": specs.PyramidSpec,
    "map_pyramid": specs.MapPyramidSpec,
}
NAMES = {kind: name for name, kind in TYPES.items()}


def to_dict(spec: typing.Any) -> dict:
    """`spec` as plain JSON values."""
    kind: typing.Any = type(spec)
    fields = {name: _plain(getattr(spec, field.name)) for name, field in _stored(kind).items()}
    return ({"type": NAMES[kind]} if kind in NAMES else {}) | fields


@functools.cache
def _stored(kind: typing.Any) -> dict[str, dataclasses.Field]:
    """The fields of a class of specs by the names under which they are stored."""
    return {field.metadata.get("stored", field.name): field for field in dataclasses.fields(kind)}


def _plain(value: typing.Any) -> typing.Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def from_dict(kind: typing.Any, values: dict) -> typing.Any:
    """The inverse of `to_dict`: a spec of `kind`, a class or a union of classes.

    Raises SpecError for unknown or missing fields, and for a type that is none of `kind`.
    """
    kind, values = _named(kind, values)
    hints = _hints(kind)
    fields = _stored(kind)
    unknown = set(values) - fields.keys()
    if unknown:
        raise SpecError(f"{kind.__name__}: unknown fields {', '.join(sorted(unknown))}")
    lost = [n for n, f in fields.items() if f.default is dataclasses.MISSING and n not in values]
    if lost:
        raise SpecError(f"{kind.__name__}: missing fields {', '.join(lost)}")
    try:
        names = {stored: field.name for stored, field in fields.items()}
        return kind(**{names[key]: _restore(hints[names[key]], value) for key, value in values.items()})
    except (TypeError, ValueError) as error:
        raise SpecError(f"{kind.__name__}: {error}") from None


@functools.cache
def _hints(kind: typing.Any) -> dict[str, typing.Any]:
    """The types of the fields of a class of specs."""
    return typing.get_type_hints(kind)


def _named(kind: typing.Any, values: typing.Any) -> tuple[type, dict]:
    """The class that `values` is of, and its fields."""
    if not isinstance(values, dict):
        raise SpecError(f"{values!r:.60} is no spec")
    known = {NAMES[one]: one for one in typing.get_args(kind) or (kind,) if one in NAMES}
    if not known:
        return kind, values
    name, rest = values.get("type"), {key: value for key, value in values.items() if key != "type"}
    if not isinstance(name, str) or name not in known:
        told = f"type {name!r:.60} is not known" if "type" in values else "no type is given"
        raise SpecError(f"{told}; expected {' or '.join(known)}")
    return known[name], rest


def _restore(hint: typing.Any, value: typing.Any) -> typing.Any:
    if value is None:
        return None
    if isinstance(hint, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not types.NoneType]
        if len(parts) > 1:
            return from_dict(hint, value)
        [hint] = parts
    if typing.get_origin(hint) is tuple:
        return tuple(_restore(typing.get_args(hint)[0], item) for item in value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_dict(hint, value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(value)
    if hint in LEAVES and not (type(value) in LEAVES[hint] and _is_possible(value)):
        raise SpecError(f"{value!r:.60} is no {hint.__name__}, or too large")
    return value


def _is_possible(value: float) -> bool:
    """Tell whether a number is finite, and a whole one of 32 bits."""
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST
