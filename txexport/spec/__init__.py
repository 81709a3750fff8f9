"""Specs of Transformers: every architectural option, and nothing else.

A spec checks itself when it is constructed and raises SpecError if its parts contradict each other. It is
independent of checkpoints, weights and graphs.
"""

from txexport.spec.anchor_stack import AnchorStackSpec
from txexport.spec.attention import AttentionSpec
from txexport.spec.bottleneck import BottleneckSpec
from txexport.spec.boxes import BoxesSpec, EdgesSpec, QualitySpec
from txexport.spec.conditional_stack import ConditionalStackSpec
from txexport.spec.connector import ConnectorSpec
from txexport.spec.convnext import ConvNextSpec
from txexport.spec.convolution_module import BatchNormSpec, ConvolutionModuleSpec
from txexport.spec.convolved_attention import ConvolvedAttentionSpec
from txexport.spec.cross_vision_language import CrossVisionLanguageSpec
from txexport.spec.decoder import DecoderSpec
from txexport.spec.deformable_attention import DeformableAttentionSpec
from txexport.spec.deformable_stack import DeformableStackSpec
from txexport.spec.depth import DepthSpec, StagedDepthSpec
from txexport.spec.described_segments import DescribedSegmentsSpec
from txexport.spec.distribution_stack import AggregationPyramidSpec, DistributionStackSpec
from txexport.spec.document import DocumentSpec
from txexport.spec.dual_attention import DualStageSpec, PicturesSpec
from txexport.spec.dual_encoder import DualEncoderSpec
from txexport.spec.efficient_attention import (
    Factored,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    PerformerAttentionSpec,
    Sharing,
    SparseAttentionSpec,
    StridedAttentionSpec,
)
from txexport.spec.embedding import EmbeddingSpec, PositionSpec
from txexport.spec.encoder import EncoderSpec
from txexport.spec.encoder_decoder import AlignmentSpec, EncoderDecoderSpec
from txexport.spec.enums import (
    Activation,
    Architecture,
    Cache,
    ClassReadout,
    ConvolutionNorm,
    HeadKind,
    Mutual,
    NormKind,
    NormPlacement,
    Pick,
    PositionKind,
    PositionNorm,
)
from txexport.spec.feature_fusion import FeatureFusionSpec, FeatureMapSpec
from txexport.spec.feed_forward import DenseAndExpertsSpec, ExpertsSpec, FeedForwardSpec, XieluFeedForwardSpec
from txexport.spec.fourier_mixing import FourierMixingSpec
from txexport.spec.frames import FramesSpec
from txexport.spec.gated_delta import GatedDeltaSpec
from txexport.spec.gated_frames import GatedFramesSpec
from txexport.spec.grid_attention import GridAttentionSpec
from txexport.spec.grounded import GroundedSpec
from txexport.spec.head import AttentionPoolSpec, HeadSpec, VectorSpec
from txexport.spec.hgnet_levels import HGNetLevelsSpec, HGNetStageSpec
from txexport.spec.instance_masks import InstanceMasksSpec
from txexport.spec.kimi_delta import KimiDeltaSpec
from txexport.spec.latent_attention import LatentAttentionSpec, MaskedAttentionSpec
from txexport.spec.layer import AdapterSpec, BlockSpec
from txexport.spec.layer_inputs import LayerInputSpec, LayerInputsSpec
from txexport.spec.layout import LayoutEmbeddingSpec, LayoutFlowSpec
from txexport.spec.length_adapter import LengthAdapterSpec
from txexport.spec.mamba import MambaSpec
from txexport.spec.mamba2 import Mamba2Spec
from txexport.spec.map_neck import MapNeckSpec
from txexport.spec.map_stack import MapStackSpec, MaskedMapsSpec, ResNetMapsSpec
from txexport.spec.mask_prompt import MaskPromptSpec
from txexport.spec.masked_queries import DeformablePyramidSpec, MaskedQueriesSpec
from txexport.spec.masks import MasksSpec, PixelPyramidSpec
from txexport.spec.mixed_stack import MixedStackSpec
from txexport.spec.model import ModelSpec
from txexport.spec.mosaic import MosaicSpec
from txexport.spec.naflex import FlattenedPatchesSpec, NaflexSpec
from txexport.spec.network import NetworkSpec
from txexport.spec.norm import GroupNormSpec, NormSpec
from txexport.spec.object_masks import ObjectMasksSpec
from txexport.spec.open_vocabulary import OpenVocabularySpec
from txexport.spec.packed import PackedSpec
from txexport.spec.page import BoxTablesSpec, PageBiasSpec, PageImageSpec
from txexport.spec.patch_bias_attention import PatchBiasAttentionSpec
from txexport.spec.patch_grid import PatchGridSpec, WindowedPositionsSpec
from txexport.spec.patch_merger import PatchMergerSpec
from txexport.spec.pose import PoseSpec
from txexport.spec.promptable import MaskDecoderSpec, NeckSpec, PromptableSpec, StabilitySpec, TwoWaySpec
from txexport.spec.proposal_stack import FusionPyramidSpec, ProposalStackSpec
from txexport.spec.query_pooling import QueryPoolingSpec
from txexport.spec.query_stack import QueryBlockSpec, QueryLayersSpec, QueryStackSpec
from txexport.spec.reduced_attention import ConvolvedFeedForwardSpec, ReducedAttentionSpec
from txexport.spec.relative_attention import (
    DisentangledAttentionSpec,
    PositionedAttentionSpec,
    RelativeKeyAttentionSpec,
    RotatedInputAttentionSpec,
    TransformerXLAttentionSpec,
)
from txexport.spec.relative_position import (
    AlibiSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RoundedAlibiSpec,
    SinusoidVectorsSpec,
)
from txexport.spec.resnet import ResNetSpec
from txexport.spec.resnet_levels import ResNetLevelsSpec
from txexport.spec.rg_lru import RgLruSpec
from txexport.spec.rotary import QueryGrowthSpec, RotarySpec
from txexport.spec.rwkv import ChannelMixSpec, TimeMixSpec
from txexport.spec.segments import FusedSegmentsSpec, MapPyramidSpec, PyramidSpec, SegmentsSpec
from txexport.spec.shared_attention import SharedAttentionSpec
from txexport.spec.short_convolution import ShortConvolutionSpec
from txexport.spec.signal_embedding import LogMelSpec, PatchSpec, SpectrogramSpec
from txexport.spec.source_attention import SourceAttentionSpec
from txexport.spec.spectrogram_grid import SpectrogramGridSpec
from txexport.spec.squeeze import SqueezeSpec
from txexport.spec.stack import MediaStackSpec, SignalStackSpec, StackSpec, TextStackSpec
from txexport.spec.staged import (
    ConvolvedMergingSpec,
    MergingSpec,
    StagedStackSpec,
    StageMergingSpec,
    StageSpec,
)
from txexport.spec.stateful import StatefulSpec
from txexport.spec.streams import AugmentedResidualSpec, StreamsSpec
from txexport.spec.subsampled import SubsampledSpec
from txexport.spec.tiled_stack import TiledStackSpec, TilesSpec
from txexport.spec.time_delay import TimeDelaySpec
from txexport.spec.vision_language import VisionLanguageSpec
from txexport.spec.visual_retriever import VisualRetrieverSpec
from txexport.spec.waveform import ConvolutionSpec, WaveformSpec
from txexport.spec.waveform_stem import WaveformStemSpec
from txexport.spec.window_attention import CosineSpec, WindowAttentionSpec
from txexport.spec.windowed_maps import ProjectorSpec, WindowedMapsSpec

__all__ = [
    "Activation",
    "AdapterSpec",
    "AggregationPyramidSpec",
    "AlibiSpec",
    "AlignmentSpec",
    "AnchorStackSpec",
    "Architecture",
    "AttentionPoolSpec",
    "AttentionSpec",
    "AugmentedResidualSpec",
    "BatchNormSpec",
    "BlockSpec",
    "BottleneckSpec",
    "BoxTablesSpec",
    "BoxesSpec",
    "Cache",
    "ChannelMixSpec",
    "ClassReadout",
    "ConditionalStackSpec",
    "ConnectorSpec",
    "ConvNextSpec",
    "ConvolutionModuleSpec",
    "ConvolutionNorm",
    "ConvolutionSpec",
    "ConvolvedAttentionSpec",
    "ConvolvedFeedForwardSpec",
    "ConvolvedMergingSpec",
    "CosineSpec",
    "CrossVisionLanguageSpec",
    "DecoderSpec",
    "DeformableAttentionSpec",
    "DeformablePyramidSpec",
    "DeformableStackSpec",
    "DenseAndExpertsSpec",
    "DepthSpec",
    "DescribedSegmentsSpec",
    "DisentangledAttentionSpec",
    "DistributionStackSpec",
    "DocumentSpec",
    "DualEncoderSpec",
    "DualStageSpec",
    "EdgesSpec",
    "EmbeddingSpec",
    "EncoderDecoderSpec",
    "EncoderSpec",
    "ExpertsSpec",
    "Factored",
    "FeatureFusionSpec",
    "FeatureMapSpec",
    "FeedForwardSpec",
    "FlattenedPatchesSpec",
    "FourierMixingSpec",
    "FramesSpec",
    "FusedSegmentsSpec",
    "FusionPyramidSpec",
    "GatedDeltaSpec",
    "GatedFramesSpec",
    "GridAttentionSpec",
    "GroundedSpec",
    "GroupNormSpec",
    "HGNetLevelsSpec",
    "HGNetStageSpec",
    "HeadKind",
    "HeadSpec",
    "InstanceMasksSpec",
    "KimiDeltaSpec",
    "LatentAttentionSpec",
    "LayerInputSpec",
    "LayerInputsSpec",
    "LayoutEmbeddingSpec",
    "LayoutFlowSpec",
    "LengthAdapterSpec",
    "LinformerAttentionSpec",
    "LocalAttentionSpec",
    "LogMelSpec",
    "LongformerAttentionSpec",
    "LowRankAttentionSpec",
    "Mamba2Spec",
    "MambaSpec",
    "MapNeckSpec",
    "MapPyramidSpec",
    "MapStackSpec",
    "MaskDecoderSpec",
    "MaskPromptSpec",
    "MaskedAttentionSpec",
    "MaskedMapsSpec",
    "MaskedQueriesSpec",
    "MasksSpec",
    "MediaStackSpec",
    "MergingSpec",
    "MixedStackSpec",
    "ModelSpec",
    "MosaicSpec",
    "Mutual",
    "NaflexSpec",
    "NeckSpec",
    "NetworkSpec",
    "NormKind",
    "NormPlacement",
    "NormSpec",
    "ObjectMasksSpec",
    "OpenVocabularySpec",
    "PackedSpec",
    "PageBiasSpec",
    "PageImageSpec",
    "PatchBiasAttentionSpec",
    "PatchGridSpec",
    "PatchMergerSpec",
    "PatchSpec",
    "PerformerAttentionSpec",
    "Pick",
    "PicturesSpec",
    "PixelPyramidSpec",
    "PoseSpec",
    "PositionKind",
    "PositionNorm",
    "PositionSpec",
    "PositionedAttentionSpec",
    "ProjectorSpec",
    "PromptableSpec",
    "ProposalStackSpec",
    "PyramidSpec",
    "QualitySpec",
    "QueryBlockSpec",
    "QueryGrowthSpec",
    "QueryLayersSpec",
    "QueryPoolingSpec",
    "QueryStackSpec",
    "ReducedAttentionSpec",
    "RelativeKeyAttentionSpec",
    "RelativeSpec",
    "RelativeVectorsSpec",
    "ResNetLevelsSpec",
    "ResNetMapsSpec",
    "ResNetSpec",
    "RgLruSpec",
    "RotarySpec",
    "RotatedInputAttentionSpec",
    "RoundedAlibiSpec",
    "SegmentsSpec",
    "SharedAttentionSpec",
    "Sharing",
    "ShortConvolutionSpec",
    "SignalStackSpec",
    "SinusoidVectorsSpec",
    "SourceAttentionSpec",
    "SparseAttentionSpec",
    "SpectrogramGridSpec",
    "SpectrogramSpec",
    "SqueezeSpec",
    "StabilitySpec",
    "StackSpec",
    "StageMergingSpec",
    "StageSpec",
    "StagedDepthSpec",
    "StagedStackSpec",
    "StatefulSpec",
    "StreamsSpec",
    "StridedAttentionSpec",
    "SubsampledSpec",
    "TextStackSpec",
    "TiledStackSpec",
    "TilesSpec",
    "TimeDelaySpec",
    "TimeMixSpec",
    "TransformerXLAttentionSpec",
    "TwoWaySpec",
    "VectorSpec",
    "VisionLanguageSpec",
    "VisualRetrieverSpec",
    "WaveformSpec",
    "WaveformStemSpec",
    "WindowAttentionSpec",
    "WindowedMapsSpec",
    "WindowedPositionsSpec",
    "XieluFeedForwardSpec",
]
