"""A contradictory spec is refused."""

import dataclasses
import json
import types
from typing import get_args, get_type_hints

import pytest
import torch
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.t5.modeling_t5 import T5Attention
from txmodels.model import model as transformer

import txexport.spec
from txexport import parts
from txexport.errors import SpecError
from txexport.spec import (
    Activation,
    AdapterSpec,
    AlibiSpec,
    AttentionPoolSpec,
    AttentionSpec,
    AugmentedResidualSpec,
    BatchNormSpec,
    BlockSpec,
    BottleneckSpec,
    ChannelMixSpec,
    ClassReadout,
    ConvNextSpec,
    ConvolutionModuleSpec,
    ConvolutionNorm,
    ConvolutionSpec,
    DecoderSpec,
    DenseAndExpertsSpec,
    DepthSpec,
    DisentangledAttentionSpec,
    DualEncoderSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeatureFusionSpec,
    FeatureMapSpec,
    FeedForwardSpec,
    FlattenedPatchesSpec,
    FramesSpec,
    FusedSegmentsSpec,
    GatedFramesSpec,
    HeadKind,
    HeadSpec,
    KimiDeltaSpec,
    LatentAttentionSpec,
    LayerInputSpec,
    LayerInputsSpec,
    LengthAdapterSpec,
    LocalAttentionSpec,
    LogMelSpec,
    MambaSpec,
    MapPyramidSpec,
    ModelSpec,
    NaflexSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PatchSpec,
    Pick,
    PoseSpec,
    PositionKind,
    PositionSpec,
    PyramidSpec,
    QueryGrowthSpec,
    RelativeKeyAttentionSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RgLruSpec,
    RotarySpec,
    RotatedInputAttentionSpec,
    RoundedAlibiSpec,
    SharedAttentionSpec,
    ShortConvolutionSpec,
    SignalStackSpec,
    SinusoidVectorsSpec,
    SpectrogramSpec,
    SqueezeSpec,
    StagedDepthSpec,
    StreamsSpec,
    StridedAttentionSpec,
    SubsampledSpec,
    TextStackSpec,
    TimeMixSpec,
    TransformerXLAttentionSpec,
    VectorSpec,
    WaveformSpec,
    WaveformStemSpec,
    XieluFeedForwardSpec,
)
from txexport.spec.serialization import TYPES, from_dict, to_dict

NORM = NormSpec(12, 1e-5)
SELF = AttentionSpec(12, 3, 3, 4, causal=False)
CAUSAL = dataclasses.replace(SELF, causal=True)
FEED = FeedForwardSpec(12, 20, Activation.RELU)
BOTTLENECK = BottleneckSpec(12, 2, 4, FeedForwardSpec(8, 20, Activation.RELU), 2, NormSpec(8, 1e-5))
ROTARY = RotarySpec((1.0, 0.5))
GROWING = RotarySpec((1.0, 0.5), growth=QueryGrowthSpec(0.1, 5))
EMBEDDING = EmbeddingSpec(31, 12, PositionSpec(PositionKind.LEARNED, 10))
BLOCK = BlockSpec(SELF, FEED, NORM, NormPlacement.POST)
BIASED = dataclasses.replace(BLOCK, attention=dataclasses.replace(SELF, has_position_bias=True))
CROSSING = dataclasses.replace(BLOCK, attention=CAUSAL, cross_attention=SELF)
ENCODER = TextStackSpec(EMBEDDING, (BLOCK,), 2)
DECODER = TextStackSpec(EMBEDDING, (dataclasses.replace(BLOCK, attention=CAUSAL),), 2, final_norm=NORM)
CROSSED = dataclasses.replace(DECODER, blocks=(CROSSING,))
WIDER = dataclasses.replace(CROSSING, cross_attention=dataclasses.replace(SELF, source_size=10))
EXPERTS = ExpertsSpec(dataclasses.replace(FEED, gated=True, bias=False), 5, 2)
LATENT = LatentAttentionSpec(12, 3, 4, 5, 8, RotarySpec((1.0,)), NormSpec(8, 1e-6), 0.4)
WHOLE = dataclasses.replace(BLOCK, attention=dataclasses.replace(SELF, unmasked=True))
TURNING = dataclasses.replace(SELF, unmasked=True, rotary=RotarySpec((1.0, 1.0)))
WAVEFORM = WaveformSpec(
    12,
    (ConvolutionSpec(7, 4, 3), ConvolutionSpec(5, 3, 2)),
    Activation.GELU,
    NormSpec(5, 1e-5),
    NORM,
    position_kernel=4,
    position_groups=3,
)
BARE = dataclasses.replace(WAVEFORM, position_kernel=None, final_norm=None)
SQUEEZE = SqueezeSpec(2, 4, 3, NORM, Activation.GELU)
SQUEEZED = SignalStackSpec(BARE, (WHOLE,), 2, squeeze=SQUEEZE)
ADAPTER = LengthAdapterSpec(12, 2, 3, 2, 1)
PRE = dataclasses.replace(BLOCK, placement=NormPlacement.PRE)
SHORTENED = SignalStackSpec(WAVEFORM, (WHOLE,), 2, length_adapter=ADAPTER)
STEM = WaveformStemSpec(12, (ConvolutionSpec(7, 4, 3), ConvolutionSpec(12, 3, 2)), Activation.GELU)
TURNED = SignalStackSpec(STEM, (dataclasses.replace(WHOLE, attention=TURNING),), 2)
GATED = SignalStackSpec(GatedFramesSpec(12, 8, 6, (3, 5), 9, 1, scale=2.5), (BLOCK,), 2)
MODULE = ConvolutionModuleSpec(12, 5, Activation.SILU, NORM, causal=True)
BATCHED = ConvolutionModuleSpec(12, 3, Activation.SILU, batch_norm=BatchNormSpec(12, 1e-5), bias=True)
CONVOLVED = dataclasses.replace(BLOCK, placement=NormPlacement.PRE, convolution=MODULE)
KEYED = dataclasses.replace(CONVOLVED, attention=RelativeKeyAttentionSpec(12, 3, 4, 6, 2))
ROTATED = dataclasses.replace(CONVOLVED, attention=RotatedInputAttentionSpec(12, 3, ROTARY))
DISTANT = dataclasses.replace(
    CONVOLVED, attention=TransformerXLAttentionSpec(12, 3, 4, segmented=False), convolution=BATCHED
)
SIX = (1.0, 0.5, 0.2, 0.1, 0.05, 0.01)
STATEFUL = dataclasses.replace(BLOCK, attention=ShortConvolutionSpec(12, 3))
MIXED = dataclasses.replace(DECODER, blocks=(*DECODER.blocks, STATEFUL))
JOINED = BlockSpec(
    dataclasses.replace(CAUSAL, input_size=24),
    FEED,
    NORM,
    NormPlacement.PRE,
    beside=ShortConvolutionSpec(12, 3),
    joins_embedding=True,
)
SANDWICH = dataclasses.replace(BLOCK, attention=CAUSAL, placement=NormPlacement.SANDWICH)
READING = dataclasses.replace(SANDWICH, attention=SharedAttentionSpec(CAUSAL, 0))
OWN = LayerInputSpec(12, 5, Activation.GELU, NORM)
SHARING = dataclasses.replace(DECODER, blocks=(SANDWICH, READING))
GIVEN = TextStackSpec(
    EMBEDDING,
    (dataclasses.replace(SANDWICH, layer_input=OWN, output_scale=True),),
    2,
    layer_inputs=LayerInputsSpec(31, NormSpec(5, 1e-5)),
)
RESIDUAL = AugmentedResidualSpec(12, 4, NORM)
STREAMED = dataclasses.replace(
    SANDWICH, layer_input=OWN, augmented_residual=RESIDUAL, streams=StreamsSpec(3, NORM)
)
SEVERAL = dataclasses.replace(GIVEN, blocks=(STREAMED,))
BESIDE = DenseAndExpertsSpec(FEED, EXPERTS, NORM)
VISION = SignalStackSpec(PatchSpec(12, (9, 15), 5, tokens=2, norm=NORM), (WHOLE,), 2, final_norm=NORM)
NARROW = BlockSpec(
    dataclasses.replace(SELF, hidden_size=10, unmasked=True),
    dataclasses.replace(FEED, hidden_size=10),
    NormSpec(10, 1e-5),
    NormPlacement.PRE,
)
NARROWER = SignalStackSpec(PatchSpec(10, (9, 15), 5), (NARROW,), 2)
POOL = AttentionPoolSpec(dataclasses.replace(SELF, unmasked=True), NORM, FEED)
MAPS = FeatureMapSpec(1, 5, 4.0), FeatureMapSpec(2, 4, 1.0)
FUSION = FeatureFusionSpec(MAPS, 6, 5, tokens=2)
DEEP = HeadSpec(HeadKind.DEPTH, tied=False, depth=DepthSpec(FUSION, 5))
OF_PATCHES = HeadSpec(
    HeadKind.SEGMENTS, tied=False, labels=3, segments=FusedSegmentsSpec(FUSION, BatchNormSpec(6, 1e-5))
)
PYRAMID = PyramidSpec((0, 1, 2, 3), (1, 2), BatchNormSpec(12, 1e-5), 5, tokens=2)
LEVELS = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=3, segments=PYRAMID)
CAUSAL_LM = HeadSpec(HeadKind.CAUSAL_LM)
MASKED_LM = HeadSpec(HeadKind.MASKED_LM, bias=True, activation=Activation.GELU, norm=NORM)

CONTRADICTIONS = {
    "eps is 0": lambda: NormSpec(12, 0),
    "norm_scale is True without norm_eps": lambda: MambaSpec(12, 24, 5, 4, 3, norm_scale=True),
    "kind 'tokens' with 0 labels": lambda: HeadSpec(HeadKind.TOKENS, tied=False),
    "kind 'none' with 3 labels": lambda: HeadSpec(labels=3),
    "kind 'tokens' with 3 labels, tied=True": lambda: HeadSpec(HeadKind.TOKENS, labels=3),
    "question-aware spans with activation None": lambda: HeadSpec(
        HeadKind.SPANS, tied=False, labels=2, pick=Pick.FIRST_EOS, eos_token_id=3
    ),
    "a span has 2 ends, not 3": lambda: HeadSpec(HeadKind.SPANS, tied=False, labels=3),
    "a choice has 1 score, not 3": lambda: HeadSpec(HeadKind.CHOICES, tied=False, labels=3),
    "kind 'tokens' picks no token": lambda: HeadSpec(HeadKind.TOKENS, tied=False, labels=3, pick=Pick.LAST),
    "only one of kind 'causal_lm' has it": lambda: HeadSpec(
        HeadKind.TOKENS, tied=False, labels=3, softcap=30.0
    ),
    "a next-sentence head stands beside": lambda: EncoderSpec(encoder=ENCODER, next_sentence=MASKED_LM),
    "the shared expert is 10 wide": lambda: dataclasses.replace(
        EXPERTS, shared=FeedForwardSpec(10, 20, Activation.RELU)
    ),
    "joint_norm is True, but there is no head_norm": lambda: dataclasses.replace(SELF, joint_norm=True),
    "rotated_norm with head_norm=None, rotary=None": lambda: dataclasses.replace(SELF, rotated_norm=True),
    "clip is 0.0": lambda: dataclasses.replace(SELF, clip=0.0),
    "residual_scale is -1": lambda: dataclasses.replace(BLOCK, residual_scale=-1.0),
    "no architecture scales what cross attention adds": lambda: dataclasses.replace(
        CROSSING, residual_scale=0.5
    ),
    "combines it with cross attention": lambda: dataclasses.replace(
        CROSSING, placement=NormPlacement.RES_POST
    ),
    "placement is 'double-post'": lambda: dataclasses.replace(CROSSING, placement=NormPlacement.DOUBLE_POST),
    "the best 3 of 2 groups of 6 experts": lambda: ExpertsSpec(FEED, 6, 2, num_groups=2, top_groups=3),
    "the best 1 of 3 groups of 7 experts": lambda: ExpertsSpec(FEED, 7, 2, num_groups=3),
    "3 experts from 1 groups of 2": lambda: ExpertsSpec(FEED, 6, 3, num_groups=3),
    "sigmoid is True with corrected=True": lambda: ExpertsSpec(FEED, 3, 2, corrected=True, sigmoid=True),
    "softmax_scores is True without corrected": lambda: ExpertsSpec(FEED, 3, 2, softmax_scores=True),
    "head_gates is True without gated_output": lambda: dataclasses.replace(CAUSAL, head_gates=True),
    "sum_eps is 0": lambda: ExpertsSpec(FEED, 3, 2, sum_eps=0.0),
    "token_size is 0": lambda: ExpertsSpec(FEED, 3, 2, token_size=0),
    "capacity is 0": lambda: ExpertsSpec(FEED, 3, 1, capacity=0),
    "capacity is 4 with top_k 2": lambda: ExpertsSpec(FEED, 3, 2, capacity=4),
    "capacity with causal attention": lambda: dataclasses.replace(
        DECODER.blocks[0], feed_forward=ExpertsSpec(FEED, 3, 1, capacity=4)
    ),
    "jitter is 0": lambda: ExpertsSpec(FEED, 3, 2, jitter=0.0),
    "jitter is 0.1 with corrected=True": lambda: ExpertsSpec(FEED, 3, 2, corrected=True, jitter=0.1),
    "1 experts from 1 groups of 1": lambda: ExpertsSpec(FEED, 3, 1, num_groups=3, corrected=True),
    "a softmax over the experts picked from groups": lambda: ExpertsSpec(FEED, 6, 2, num_groups=3),
    "the norm is 7 wide, expected kv_lora_rank, 8": lambda: dataclasses.replace(
        LATENT, norm=NormSpec(7, 1e-6)
    ),
    "pairs that were de-interleaved cannot": lambda: dataclasses.replace(
        LATENT, rotary=RotarySpec((1.0,), interleaved=True), apart=True
    ),
    "LatentAttentionSpec: q_lora_rank is 0": lambda: dataclasses.replace(LATENT, q_lora_rank=0),
    "LatentAttentionSpec: shared_dim is 0, expected 1": lambda: dataclasses.replace(LATENT, rotary=None),
    "LatentAttentionSpec: shared_dim is 2, expected 0": lambda: dataclasses.replace(LATENT, shared_dim=2),
    "LatentAttentionSpec: apart is True without": lambda: dataclasses.replace(
        LATENT, rotary=None, shared_dim=2, apart=True
    ),
    "KimiDeltaSpec: norm is 8 wide, a head 6": lambda: KimiDeltaSpec(12, 2, 6, 3, NormSpec(8, 1e-6)),
    "KimiDeltaSpec: kernel is 1": lambda: KimiDeltaSpec(12, 2, 6, 1, NormSpec(6, 1e-6)),
    "RgLruSpec: width is 10, which 4 blocks": lambda: RgLruSpec(12, 10, 4, 3, Activation.SILU),
    "RgLruSpec: num_blocks is 0": lambda: RgLruSpec(12, 10, 0, 3, Activation.SILU),
    "RgLruSpec: kernel is 1": lambda: RgLruSpec(12, 10, 2, 1, Activation.SILU),
    "TimeMixSpec: hidden_size is 0": lambda: TimeMixSpec(0),
    "ChannelMixSpec: intermediate_size is 0": lambda: ChannelMixSpec(12, 0),
    "BlockSpec: TimeMixSpec with FeedForwardSpec": lambda: dataclasses.replace(
        BLOCK, attention=TimeMixSpec(12), placement=NormPlacement.PRE
    ),
    "with ChannelMixSpec, placement 'pre' and attention, feed_forward; expected TimeMixSpec": lambda: (
        dataclasses.replace(BLOCK, feed_forward=ChannelMixSpec(12, 20), placement=NormPlacement.PRE)
    ),
    "TimeMixSpec with ChannelMixSpec, placement 'post'": lambda: dataclasses.replace(
        BLOCK,
        attention=TimeMixSpec(12),
        feed_forward=ChannelMixSpec(12, 20),
        placement=NormPlacement.POST,
    ),
    "TextStackSpec: RgLruSpec without a layer that keeps keys": lambda: dataclasses.replace(
        DECODER,
        blocks=(dataclasses.replace(BLOCK, attention=RgLruSpec(12, 12, 3, 2, Activation.SILU)),),
    ),
    "of 3 experts cannot be chosen": lambda: ExpertsSpec(FEED, 3, 4),
    "needs a plain block: expected one of post, pre, parallel, sandwich, res-post, and False": lambda: (
        dataclasses.replace(BLOCK, feed_forward=EXPERTS, placement=NormPlacement.DOUBLE_POST)
    ),
    "can leave its first norm out": lambda: dataclasses.replace(BLOCK, skip_attention_norm=True),
    "3 blocks for 2 layers": lambda: dataclasses.replace(ENCODER, blocks=(BLOCK,) * 3),
    "0 blocks for 2 layers": lambda: dataclasses.replace(ENCODER, blocks=()),
    "either every layer has cross attention": lambda: dataclasses.replace(
        DECODER, blocks=(*DECODER.blocks, CROSSING)
    ),
    "either every layer is causal": lambda: dataclasses.replace(DECODER, blocks=(*DECODER.blocks, BLOCK)),
    "2 slopes for 3 heads": lambda: dataclasses.replace(
        ENCODER, blocks=(BIASED,), relative=AlibiSpec((0.5, 0.25))
    ),
    "longest is 0": lambda: PositionSpec(PositionKind.LEARNED, 9, longest=0),
    "sees everything has no window": lambda: dataclasses.replace(SELF, unmasked=True, window=3),
    "pixels hold no patch of 5": lambda: PatchSpec(12, (9, 4), 5),
    "tokens is 3": lambda: PatchSpec(12, (9, 9), 5, tokens=3),
    "9 frames of 3 bands hold no patch of 4": lambda: SpectrogramSpec(12, 3, 9, 4, 2, 3),
    "SpectrogramSpec: time_stride is 0": lambda: SpectrogramSpec(12, 7, 9, 4, 2, 0),
    "convolutions is .., expected one or more": lambda: dataclasses.replace(WAVEFORM, convolutions=()),
    "position_groups 5": lambda: dataclasses.replace(WAVEFORM, position_groups=5),
    "AdapterSpec: norm is 5 wide, feed_forward 12": lambda: AdapterSpec(NormSpec(5, 1e-5), FEED),
    "2 position_layers with position_norm none, expected layer": lambda: dataclasses.replace(
        WAVEFORM, position_layers=2
    ),
    "WaveformSpec: norm is of size 12, expected 5": lambda: dataclasses.replace(WAVEFORM, norm=NORM),
    "final_norm is of size 5, expected 12": lambda: dataclasses.replace(
        WAVEFORM, final_norm=NormSpec(5, 1e-5)
    ),
    "projected is False and the last convolution of size 5, expected hidden_size 12": lambda: (
        dataclasses.replace(WAVEFORM, projected=False)
    ),
    "SqueezeSpec: factor is 0": lambda: dataclasses.replace(SQUEEZE, factor=0),
    "SqueezeSpec: 12 channels are not divisible by position_groups 5": lambda: dataclasses.replace(
        SQUEEZE, position_groups=5
    ),
    "squeeze is given for WaveformSpec, expected None, or a waveform without": lambda: dataclasses.replace(
        SQUEEZED, embedding=WAVEFORM
    ),
    "squeeze is 9 wide, the stack 12": lambda: dataclasses.replace(
        SQUEEZED, squeeze=dataclasses.replace(SQUEEZE, norm=NormSpec(9, 1e-5))
    ),
    "LengthAdapterSpec: stride is 0": lambda: dataclasses.replace(ADAPTER, stride=0),
    "padding is 2 and kernel 3; expected less than half": lambda: dataclasses.replace(ADAPTER, padding=2),
    "LengthAdapterSpec: norm is 12 wide, the adapter 7": lambda: dataclasses.replace(
        ADAPTER, hidden_size=7, norm=NORM
    ),
    "a block with AttentionSpec of width 12, placement 'post'": lambda: dataclasses.replace(
        ADAPTER, block=BLOCK
    ),
    "length_adapter is given for WaveformSpec and squeeze": lambda: dataclasses.replace(
        SQUEEZED, length_adapter=ADAPTER
    ),
    "length_adapter is given for WaveformStemSpec and squeeze None": lambda: dataclasses.replace(
        TURNED, length_adapter=ADAPTER
    ),
    "length_adapter has blocks over a sound without a mask": lambda: dataclasses.replace(
        SHORTENED, length_adapter=dataclasses.replace(ADAPTER, block=PRE)
    ),
    "feed-forward network of length_adapter is 9 wide, the stack 12": lambda: dataclasses.replace(
        SHORTENED,
        length_adapter=dataclasses.replace(ADAPTER, feed_forward=FeedForwardSpec(9, 20, Activation.RELU)),
    ),
    "length_adapter is 9 wide without a projection, the stack 12": lambda: dataclasses.replace(
        SHORTENED, length_adapter=dataclasses.replace(ADAPTER, hidden_size=9)
    ),
    "attention is unmasked over a masked signal": lambda: SignalStackSpec(
        dataclasses.replace(WAVEFORM, masked=True), (WHOLE,), 2
    ),
    "ConvolutionModuleSpec: kernel is 4": lambda: dataclasses.replace(MODULE, kernel=4),
    r"norm and batch_norm of sizes \[\], expected one of them": lambda: dataclasses.replace(
        MODULE, norm=None
    ),
    r"norm and batch_norm of sizes \[12, 12\]": lambda: dataclasses.replace(BATCHED, norm=NORM),
    "BatchNormSpec: eps is 0": lambda: BatchNormSpec(12, 0),
    "RelativeKeyAttentionSpec without a convolution": lambda: dataclasses.replace(KEYED, convolution=None),
    "convolution with AttentionSpec, FeedForwardSpec, placement 'post'": lambda: dataclasses.replace(
        CONVOLVED, placement=NormPlacement.POST
    ),
    "convolution with AttentionSpec, ExpertsSpec": lambda: dataclasses.replace(
        CONVOLVED, feed_forward=EXPERTS
    ),
    "convolution with DisentangledAttentionSpec": lambda: dataclasses.replace(
        CONVOLVED, attention=DisentangledAttentionSpec(12, 3, 4)
    ),
    "ConvolutionModuleSpec is 10 wide, attention 12": lambda: dataclasses.replace(
        CONVOLVED, convolution=ConvolutionModuleSpec(10, 5, Activation.SILU, NormSpec(10, 1e-5))
    ),
    "attention is gated, expected gated=False over texts": lambda: dataclasses.replace(
        ENCODER,
        blocks=(dataclasses.replace(BIASED, attention=dataclasses.replace(BIASED.attention, gated=True)),),
        relative=RelativeSpec(8, 20, True),
    ),
    "causal or has token masks or a window; expected none": lambda: SignalStackSpec(
        WAVEFORM, (dataclasses.replace(CONVOLVED, attention=CAUSAL),), 2
    ),
    "a block has a convolution, expected None over texts": lambda: TextStackSpec(EMBEDDING, (CONVOLVED,), 2),
    "relative is None for TransformerXLAttentionSpec": lambda: SignalStackSpec(
        FramesSpec(12, 5, NormSpec(5, 1e-5)), (DISTANT,), 2
    ),
    "relative is given for RelativeKeyAttentionSpec": lambda: SignalStackSpec(
        FramesSpec(12, 5, NormSpec(5, 1e-5)), (KEYED,), 2, relative=SinusoidVectorsSpec(SIX)
    ),
    "SignalStackSpec: 5 frequencies make vectors of 10 numbers": lambda: SignalStackSpec(
        FramesSpec(12, 5, NormSpec(5, 1e-5)), (DISTANT,), 2, relative=SinusoidVectorsSpec(SIX[1:])
    ),
    "left is -1 and right 2": lambda: RelativeKeyAttentionSpec(12, 3, 4, -1, 2),
    "RotatedInputAttentionSpec: 3 heads over 12 numbers and 1 frequencies": lambda: RotatedInputAttentionSpec(
        12, 3, RotarySpec((1.0,))
    ),
    "FramesSpec: norm is 12 wide, the frames 5": lambda: FramesSpec(12, 5, NORM),
    "SubsampledSpec: kernel is 2": lambda: SubsampledSpec(12, 8, 3, 2, kernel=2),
    "GatedFramesSpec: kernels are .2,.": lambda: GatedFramesSpec(12, 8, 6, (2,), 9, 1),
    "GatedFramesSpec: kernels are ..,": lambda: GatedFramesSpec(12, 8, 6, (), 9, 1),
    "GatedFramesSpec: channels is 5": lambda: GatedFramesSpec(12, 8, 5, (3,), 9, 1),
    "LengthAdapterSpec: num_layers is 0": lambda: dataclasses.replace(ADAPTER, num_layers=0),
    "expected source_size=10, or projected=True": lambda: EncoderDecoderSpec(
        dataclasses.replace(
            SHORTENED, length_adapter=LengthAdapterSpec(10, 2, 3, 2, 1, norm=NormSpec(10, 1e-5))
        ),
        CROSSED,
        CAUSAL_LM,
    ),
    "cross attention is unmasked over a masked sound": lambda: EncoderDecoderSpec(
        GATED,
        dataclasses.replace(
            CROSSED,
            blocks=(dataclasses.replace(CROSSING, cross_attention=dataclasses.replace(SELF, unmasked=True)),),
        ),
        CAUSAL_LM,
    ),
    "SubsampledSpec: layers is 0": lambda: SubsampledSpec(12, 8, 3, 0),
    "ConvolutionSpec: stride is 0": lambda: ConvolutionSpec(5, 3, 0),
    "antialias is True": lambda: PatchSpec(12, (9, 9), 5, antialias=True),
    "PatchSpec: registers is -1": lambda: PatchSpec(12, (9, 9), 5, registers=-1),
    "HeadSpec: registers is 2": lambda: dataclasses.replace(LABELS, registers=2),
    "the head's mean leaves out 2 registers, expected 0": lambda: EncoderSpec(
        VISION, dataclasses.replace(LABELS, pick=Pick.FIRST_AND_MEAN, registers=2)
    ),
    "reads no mask, but a text may be padded": lambda: EncoderSpec(
        ENCODER, dataclasses.replace(LABELS, pick=Pick.GLOBAL_AVERAGE)
    ),
    "half of them rotate by a patch's row": lambda: dataclasses.replace(
        VISION,
        embedding=dataclasses.replace(VISION.embedding, positioned=False),
        blocks=(
            dataclasses.replace(WHOLE, attention=dataclasses.replace(TURNING, rotary=RotarySpec((1.0,)))),
        ),
    ),
    "positioned=True; expected one": lambda: dataclasses.replace(
        VISION, blocks=(dataclasses.replace(WHOLE, attention=TURNING),)
    ),
    "positioned=False; expected one": lambda: dataclasses.replace(
        VISION, embedding=dataclasses.replace(VISION.embedding, positioned=False)
    ),
    "settings over WaveformStemSpec with positioned=False": lambda: dataclasses.replace(
        TURNED, blocks=(WHOLE,)
    ),
    "convolutions have .7. channels; expected": lambda: dataclasses.replace(
        STEM, convolutions=(ConvolutionSpec(7, 4, 3),)
    ),
    "convolutions have .. channels; expected": lambda: dataclasses.replace(STEM, convolutions=()),
    "2 different rotary settings": lambda: dataclasses.replace(
        VISION, blocks=(WHOLE, dataclasses.replace(WHOLE, attention=TURNING))
    ),
    "expected none of them over images and sounds": lambda: SignalStackSpec(
        PatchSpec(12, (9, 9), 5), DECODER.blocks, 2
    ),
    "one encoder reads text, the other images": lambda: DualEncoderSpec(ENCODER, ENCODER, 6, Pick.ARGMAX_ID),
    "picked by the id that ends it, not 'last'": lambda: DualEncoderSpec(ENCODER, VISION, 6, Pick.LAST),
    "picked by the id that ends it, not 'first_eos' None": lambda: DualEncoderSpec(
        ENCODER, VISION, 6, Pick.FIRST_EOS
    ),
    "positions have no limit": lambda: DualEncoderSpec(
        dataclasses.replace(
            ENCODER,
            embedding=dataclasses.replace(EMBEDDING, position=PositionSpec(PositionKind.NONE)),
        ),
        VISION,
        6,
        Pick.FINAL,
    ),
    "their pool 12, vectors 6": lambda: DualEncoderSpec(ENCODER, VISION, 6, Pick.FINAL, vision_pool=POOL),
    "beside text it has nothing; expected vision, or": lambda: DualEncoderSpec(ENCODER, None, 6, Pick.FIRST),
    "beside text it has vision, activation": lambda: DualEncoderSpec(
        ENCODER, VISION, 6, Pick.FIRST, activation=Activation.RELU
    ),
    "is not causal, without window, rotary": lambda: AttentionPoolSpec(
        dataclasses.replace(SELF, causal=True), NORM, FEED
    ),
    "the pool is one of attention over PatchSpec": lambda: DualEncoderSpec(
        ENCODER, VISION, 12, Pick.FINAL, vision_pool=AttentionPoolSpec(SELF, NORM, FEED)
    ),
    r"widths \[12, 13\] of its parts": lambda: dataclasses.replace(POOL, norm=NormSpec(13, 1e-5)),
    "DualEncoderSpec: unknown fields encoder": lambda: from_dict(
        ModelSpec,
        to_dict(DualEncoderSpec(ENCODER, VISION, 6, Pick.ARGMAX_ID)) | {"encoder": to_dict(ENCODER)},
    ),
    "a masked LM reads tokens": lambda: EncoderSpec(VISION, MASKED_LM),
    "beside one that scores sequences": lambda: EncoderSpec(encoder=VISION, distilled=True),
    "takes the mean after a dense layer": lambda: dataclasses.replace(LABELS, pick=Pick.MEAN_AFTER_DENSE),
    "its two concatenated vectors are projected": lambda: dataclasses.replace(
        LABELS, pick=Pick.FIRST_AND_MEAN, activation=Activation.TANH
    ),
    "VectorSpec: 'last' of the id None": lambda: VectorSpec(Pick.LAST),
    "VectorSpec: 'first_eos' of the id None": lambda: VectorSpec(Pick.FIRST_EOS),
    "a pool with pick 'first', a norm and size": lambda: VectorSpec(norm=NORM, pool=POOL),
    "EncoderSpec: texts are padded to one length": lambda: EncoderSpec(
        dataclasses.replace(
            ENCODER, embedding=dataclasses.replace(EMBEDDING, position=PositionSpec(PositionKind.NONE))
        ),
        vector=VectorSpec(Pick.FINAL),
    ),
    "the vector's pool is 12 wide": lambda: EncoderSpec(
        dataclasses.replace(
            VISION,
            embedding=PatchSpec(10, (9, 15), 5),
            blocks=(NARROW,),
            final_norm=None,
        ),
        vector=VectorSpec(pool=POOL),
    ),
    "bias is True without a projection": lambda: VectorSpec(bias=True),
    "a vector with pooler=True": lambda: EncoderSpec(encoder=ENCODER, pooler=True, vector=VectorSpec()),
    "a vector with pooler=False and a head of kind 'masked_lm'": lambda: EncoderSpec(
        encoder=ENCODER, head=MASKED_LM, vector=VectorSpec()
    ),
    "images and sounds have no ids": lambda: EncoderSpec(VISION, vector=VectorSpec(Pick.ARGMAX_ID)),
    "the vector's norm is 4 wide": lambda: EncoderSpec(ENCODER, vector=VectorSpec(norm=NormSpec(4, 1e-5))),
    "no slopes": lambda: AlibiSpec(()),
    "RoundedAlibiSpec: slopes is": lambda: RoundedAlibiSpec((), 10),
    "length is 0": lambda: RoundedAlibiSpec((0.5,), 0),
    "1000000 positions of 2 heads": lambda: RoundedAlibiSpec((0.5, 0.25), 10**6),
    "sinks with softcap=5.0": lambda: dataclasses.replace(SELF, softcap=5.0, sinks=True),
    "no bias and no sinks": lambda: dataclasses.replace(SELF, causal=False, unmasked=True, sinks=True),
    "clip is 7.0 and gated False": lambda: FeedForwardSpec(12, 20, Activation.GELU, clip=7.0),
    "cross_attention.sinks is True": lambda: dataclasses.replace(
        DECODER.blocks[0], cross_attention=dataclasses.replace(SELF, causal=False, sinks=True)
    ),
    "caps scores and adds a bias": lambda: dataclasses.replace(SELF, softcap=5.0, has_position_bias=True),
    "cannot skip padding": lambda: DecoderSpec(
        decoder=dataclasses.replace(
            DECODER,
            embedding=dataclasses.replace(EMBEDDING, position=PositionSpec(PositionKind.LEARNED, 10, 1, 1)),
        ),
        head=CAUSAL_LM,
    ),
    "three sublayers in parallel": lambda: dataclasses.replace(CROSSING, placement=NormPlacement.PARALLEL),
    "norm is 12 wide, the embedding 4": lambda: dataclasses.replace(EMBEDDING, norm=NORM, factored_size=4),
    "norm_first is True without a norm": lambda: dataclasses.replace(EMBEDDING, norm=None, norm_first=True),
    "trigrams is True without project_first": lambda: dataclasses.replace(EMBEDDING, trigrams=True),
    "kind 'none' with eps=1e-05 and bias=True": lambda: NormSpec(12, 1e-5, NormKind.NONE),
    "BottleneckSpec with a network of its own or placement 'post'": lambda: BlockSpec(
        BOTTLENECK, FEED, NORM, NormPlacement.POST
    ),
    "BottleneckSpec with a network of its own or placement 'pre'": lambda: BlockSpec(
        BOTTLENECK, None, NORM, NormPlacement.PRE
    ),
    "project_first is True without a factored_size": lambda: dataclasses.replace(
        EMBEDDING, project_first=True
    ),
    "norm is 4 wide, the embedding 12": lambda: dataclasses.replace(
        EMBEDDING, norm=NormSpec(4, 1e-5), factored_size=4, project_first=True
    ),
    "factored_size is 0": lambda: HeadSpec(HeadKind.CAUSAL_LM, factored_size=0),
    "factored_size is 4, expected None": lambda: HeadSpec(
        HeadKind.TOKENS, tied=False, labels=3, factored_size=4
    ),
    "expected None in a head of kind 'sequence' with activation 'None' and pick 'first_and_mean'": lambda: (
        dataclasses.replace(LABELLED, pick=Pick.FIRST_AND_MEAN, factored_size=4)
    ),
    "factored_bias is True with factored_size None": lambda: dataclasses.replace(
        LABELLED, factored_bias=True
    ),
    "factored_bias is True with factored_size 12": lambda: HeadSpec(
        HeadKind.CAUSAL_LM, factored_size=12, factored_bias=True
    ),
    "beside is 4, expected None in a head of kind 'tokens'": lambda: HeadSpec(
        HeadKind.TOKENS, tied=False, labels=3, beside=4
    ),
    "beside is 0": lambda: HeadSpec(HeadKind.MASKED_LM, beside=0),
    "layer_sum is True under a head of kind 'none'": lambda: EncoderSpec(encoder=VISION, layer_sum=True),
    "depth is None in a head of kind 'depth'": lambda: HeadSpec(HeadKind.DEPTH, tied=False),
    "layers that rise and factors": lambda: FeatureFusionSpec(MAPS[::-1], 6, 5),
    "expected one or more, layers that rise": lambda: FeatureFusionSpec((), 6, 5),
    "tokens is -1, expected 0 or more": lambda: FeatureFusionSpec(MAPS, 6, 5, tokens=-1),
    "FeatureFusionSpec: norm is 7 wide": lambda: FeatureFusionSpec(MAPS, 6, 5, norm=BatchNormSpec(7, 1e-5)),
    "the fused map has 1 channel": lambda: DepthSpec(FeatureFusionSpec(MAPS, 1, 5), 5),
    "DepthSpec: max_depth is 0": lambda: DepthSpec(FUSION, 5, max_depth=0.0),
    "expected two or more maps": lambda: MapPyramidSpec((5,), (1,), BatchNormSpec(4, 1e-5)),
    "MapPyramidSpec: sizes are": lambda: MapPyramidSpec((5, 6), (), BatchNormSpec(4, 1e-5)),
    "ConvNextSpec: depths": lambda: ConvNextSpec((1, 2), (3,)),
    "expected as many of both, from 1": lambda: ConvNextSpec((), ()),
    "expected at least 8 pixels": lambda: ConvNextSpec((1, 1), (3, 4), image_size=(7, 9)),
    "a head of kind 'last_map' over SignalStackSpec": lambda: EncoderSpec(
        VISION, HeadSpec(HeadKind.LAST_MAP)
    ),
    "StagedDepthSpec: sizes are": lambda: StagedDepthSpec((5, 0), 6, 1e-5),
    "more, and 2 or more": lambda: StagedDepthSpec((5, 6), 1, 1e-5),
    "but 0 stages have norms of": lambda: EncoderSpec(
        VISION, dataclasses.replace(DEEP, depth=StagedDepthSpec((5, 6), 6, 1e-5))
    ),
    "PoseSpec: layers are": lambda: PoseSpec((1, 2), 5),
    "factor is 3 with a norm": lambda: PoseSpec((2,), 5, factor=3, norm=BatchNormSpec(6, 1e-5)),
    "shared_position is True with 1 tokens": lambda: PatchSpec(12, (9, 15), 5, shared_position=True),
    "border is 2 around": lambda: PatchSpec(12, (9, 15), 5, border=2),
    "EncoderSpec: FlattenedPatchesSpec, which an EncoderDecoderSpec": lambda: EncoderSpec(
        dataclasses.replace(VISION, embedding=FlattenedPatchesSpec(12, 5, 3), blocks=(BLOCK,))
    ),
    "FlattenedPatchesSpec: positions is 1, expected 2": lambda: FlattenedPatchesSpec(12, 5, 1),
    "FlattenedPatchesSpec: numbers is 0": lambda: FlattenedPatchesSpec(12, 0, 5),
    "embedding is NaflexSpec, which a DualEncoderSpec alone": lambda: EncoderSpec(
        dataclasses.replace(VISION, embedding=NaflexSpec(12, 5, 3), blocks=(BLOCK,))
    ),
    "FusedSegmentsSpec: norm is 7 wide": lambda: FusedSegmentsSpec(FUSION, BatchNormSpec(7, 1e-5)),
    "expected four that rise": lambda: dataclasses.replace(PYRAMID, layers=(0, 1, 3, 2)),
    "expected four that rise, from 0": lambda: dataclasses.replace(PYRAMID, layers=(0, 1, 2)),
    "tokens 2; expected one or more scales": lambda: dataclasses.replace(PYRAMID, scales=()),
    "a pyramid's norm is 7 wide": lambda: EncoderSpec(
        dataclasses.replace(VISION, num_layers=3),
        dataclasses.replace(LEVELS, segments=dataclasses.replace(PYRAMID, norm=BatchNormSpec(7, 1e-5))),
    ),
    "of 2; expected the last layer among them": lambda: EncoderSpec(VISION, LEVELS),
    "layer 1 with factor 3.0; expected": lambda: FeatureMapSpec(1, 5, 3.0),
    "maps read a class token, but tokens is 0": lambda: FeatureFusionSpec(
        (FeatureMapSpec(1, 5, 4.0, ClassReadout.ADD),), 7, 6, tokens=0
    ),
    "kind 'depth' reads patches; embedding is EmbeddingSpec": lambda: EncoderSpec(ENCODER, DEEP),
    "patches of 99 pixels after 2 vectors; the encoder's have": lambda: EncoderSpec(
        VISION,
        dataclasses.replace(DEEP, depth=DepthSpec(dataclasses.replace(FUSION, patch_size=99), 5)),
    ),
    "expected the last layer among them": lambda: EncoderSpec(
        VISION, dataclasses.replace(DEEP, depth=DepthSpec(dataclasses.replace(FUSION, maps=MAPS[:1]), 5))
    ),
    "over EmbeddingSpec, distilled=False": lambda: EncoderSpec(ENCODER, LABELS, layer_sum=True),
    "over PatchSpec, distilled=True": lambda: EncoderSpec(
        encoder=VISION, head=LABELLED, distilled=True, layer_sum=True
    ),
    "a head of 4 numbers is tied to token embeddings of 12": lambda: DecoderSpec(
        DECODER, HeadSpec(HeadKind.CAUSAL_LM, factored_size=4)
    ),
    "task_type_vocab_size is -1": lambda: dataclasses.replace(EMBEDDING, task_type_vocab_size=-1),
    "word_size is 0": lambda: dataclasses.replace(EMBEDDING, factored_size=0),
    "a head of 12 numbers is tied to token embeddings of 4": lambda: EncoderSpec(
        encoder=dataclasses.replace(ENCODER, embedding=dataclasses.replace(EMBEDDING, factored_size=4)),
        head=MASKED_LM,
    ),
    "do not fit distances up to 3": lambda: RelativeSpec(8, 3, False),
    "nothing tells the order of tokens": lambda: DisentangledAttentionSpec(12, 3, 4, False, False),
    "head_dim is 0": lambda: DisentangledAttentionSpec(12, 3, 0),
    "head_dim is -1": lambda: TransformerXLAttentionSpec(12, 3, -1),
    "so there is no vector": lambda: SinusoidVectorsSpec(()),
    "clamp is 0": lambda: SinusoidVectorsSpec((1.0,), 0),
    "SinusoidVectorsSpec; expected DisentangledAttentionSpec with": lambda: dataclasses.replace(
        DISENTANGLED, relative=SEGMENTED.relative
    ),
    "expected TransformerXLAttentionSpec with SinusoidVectorsSpec, or neither": lambda: dataclasses.replace(
        SEGMENTED, relative=AlibiSpec((0.5, 0.25, 0.1))
    ),
    "1 frequencies make vectors of 2 numbers, but the stack is 12 wide": lambda: dataclasses.replace(
        SEGMENTED, relative=SinusoidVectorsSpec((1.0,))
    ),
    "max_distance is 0": lambda: RelativeVectorsSpec(0),
    "distances up to 5000, expected 4096 at most": lambda: RelativeVectorsSpec(5000, 256),
    "7 buckets do not fit distances up to 20": lambda: RelativeVectorsSpec(20, 7),
    "2 buckets do not fit distances up to 20": lambda: RelativeVectorsSpec(20, 2),
    "8 buckets do not fit distances up to 5": lambda: RelativeVectorsSpec(5, 8),
    "AttentionSpec with RelativeVectorsSpec": lambda: dataclasses.replace(
        RELATIVE, relative=RelativeVectorsSpec(20, 8)
    ),
    "DisentangledAttentionSpec with RelativeSpec": lambda: dataclasses.replace(
        DISENTANGLED, relative=RelativeSpec(8, 20, True)
    ),
    "the norm of relative positions is 4 wide, the stack 12": lambda: dataclasses.replace(
        DISENTANGLED, relative=RelativeVectorsSpec(20, 8, NormSpec(4, 1e-5))
    ),
    "every one needs keys of its own": lambda: AttentionSpec(
        12, 4, 2, 3, causal=True, has_position_bias=True
    ),
    "expected True exactly if relative is given": lambda: dataclasses.replace(
        ENCODER, relative=RelativeSpec(8, 20, True)
    ),
    "scale is 0": lambda: HeadSpec(HeadKind.CAUSAL_LM, scale=0.0),
    "nothing is rotated": lambda: RotarySpec(()),
    "QueryGrowthSpec: rate is 0": lambda: QueryGrowthSpec(0.0, 5),
    "QueryGrowthSpec: ahead is -1": lambda: QueryGrowthSpec(0.1, 5, -1),
    "chunked with window=None": lambda: dataclasses.replace(CAUSAL, chunked=True),
    "chunked with window=3, causal=False": lambda: dataclasses.replace(
        CAUSAL, causal=False, window=3, chunked=True
    ),
    "QueryGrowthSpec: length is 0": lambda: QueryGrowthSpec(0.1, 0),
    "RotarySpec: growth with positions on several axes": lambda: RotarySpec(
        (1.0, 0.5), axes=(0, 1), growth=QueryGrowthSpec(0.1, 5)
    ),
    "SharedAttentionSpec: rotary.growth is given": lambda: SharedAttentionSpec(
        dataclasses.replace(CAUSAL, rotary=dataclasses.replace(ROTARY, growth=QueryGrowthSpec(0.1, 5))), 0
    ),
    "long_frequencies are 1 numbers, expected 2": lambda: RotarySpec(
        (1.0, 0.5), long_frequencies=(0.5,), short_length=4
    ),
    "short_length is 0, expected 1 or more": lambda: RotarySpec((1.0,), long_frequencies=(0.5,)),
    "short_length is 4, expected 0, without": lambda: RotarySpec((1.0,), short_length=4),
    "exceed a head of 4": lambda: dataclasses.replace(SELF, rotary=RotarySpec((1.0, 0.5, 0.2))),
    "head norm is 12 wide, a head 4": lambda: dataclasses.replace(SELF, head_norm=NORM),
    "cross attention has no RoPE": lambda: dataclasses.replace(
        CROSSING, cross_attention=dataclasses.replace(SELF, rotary=ROTARY)
    ),
    "cannot share 2 key/value heads": lambda: AttentionSpec(12, 3, 2, 4, causal=True),
    "num_heads is 0": lambda: AttentionSpec(12, 0, 1, 4, causal=True),
    "intermediate_size is -1": lambda: FeedForwardSpec(12, -1, Activation.RELU),
    "FeedForwardSpec is 8 wide, attention 12": lambda: BlockSpec(
        SELF, FeedForwardSpec(8, 20, Activation.RELU), NORM, NormPlacement.PRE
    ),
    "norm is 8 wide": lambda: BlockSpec(SELF, FEED, NormSpec(8, 1e-5), NormPlacement.PRE),
    "so it cannot be causal": lambda: BlockSpec(CAUSAL, FEED, NORM, NormPlacement.PRE, CAUSAL),
    "holds no position": lambda: PositionSpec(PositionKind.LEARNED, 2, 2),
    "without a table there is no offset": lambda: PositionSpec(PositionKind.NONE, 4, 1),
    "type_vocab_size is -1": lambda: dataclasses.replace(EMBEDDING, type_vocab_size=-1),
    "norm is 8 wide, the embedding 12": lambda: dataclasses.replace(EMBEDDING, norm=NormSpec(8, 1e-5)),
    "num_layers is 0": lambda: dataclasses.replace(ENCODER, num_layers=0),
    "the embedding is 8 wide": lambda: dataclasses.replace(
        ENCODER, embedding=dataclasses.replace(EMBEDDING, hidden_size=8)
    ),
    "final norm is 8 wide": lambda: dataclasses.replace(ENCODER, final_norm=NormSpec(8, 1e-5)),
    "transform has an activation and a norm": lambda: HeadSpec(HeadKind.MASKED_LM, norm=NORM),
    "without the dense layer": lambda: HeadSpec(HeadKind.CAUSAL_LM, norm=NORM),
    "has no dense layer": lambda: HeadSpec(activation=Activation.TANH),
    "no type is given; expected encoder or decoder": lambda: from_dict(ModelSpec, {}),
    "DecoderSpec: missing fields decoder, head": lambda: from_dict(ModelSpec, {"type": "decoder"}),
    "DecoderSpec: there is no encoder to cross-attend to": lambda: DecoderSpec(
        decoder=CROSSED, head=CAUSAL_LM
    ),
    "attention must be causal": lambda: DecoderSpec(decoder=ENCODER, head=CAUSAL_LM),
    "needs a causal LM head": lambda: DecoderSpec(DECODER, HeadSpec()),
    "EncoderDecoderSpec: a decoder needs": lambda: EncoderDecoderSpec(ENCODER, CROSSED, HeadSpec()),
    "EncoderDecoderSpec: attention.causal": lambda: EncoderDecoderSpec(ENCODER, ENCODER, CAUSAL_LM),
    "made of 10 numbers, but a vector given has 12": lambda: EncoderDecoderSpec(
        ENCODER, dataclasses.replace(CROSSED, blocks=(WIDER,)), CAUSAL_LM
    ),
    "made of 12 numbers, but a vector given has 10": lambda: EncoderDecoderSpec(NARROWER, CROSSED, CAUSAL_LM),
    "only cross attention reads vectors of another stack": lambda: dataclasses.replace(
        CROSSING, attention=dataclasses.replace(CAUSAL, source_size=10)
    ),
    "what is read twice are tokens": lambda: EncoderDecoderSpec(
        encoder=ENCODER, head=CAUSAL_LM, decoder=CROSSED, decoder_start_token_id=2
    ),
    "'last_eos' of the id None": lambda: HeadSpec(
        HeadKind.SEQUENCE, tied=False, labels=2, pick=Pick.LAST_EOS
    ),
    "input_size with causal=False": lambda: dataclasses.replace(SELF, input_size=24),
    "adapter_rank with causal=True, source_size=None, keys_as_values=True": lambda: dataclasses.replace(
        CAUSAL, adapter_rank=3, keys_as_values=True
    ),
    "AttentionSpec: adapter_rank is 0": lambda: dataclasses.replace(CAUSAL, adapter_rank=0),
    "adapter_rank is 3 with gated=False": lambda: dataclasses.replace(FEED, adapter_rank=3),
    "attention.input_size is 24, expected None": lambda: dataclasses.replace(
        BLOCK, attention=dataclasses.replace(CAUSAL, input_size=24)
    ),
    "joins_embedding with AttentionSpec, an input_size of None": lambda: dataclasses.replace(
        JOINED, attention=CAUSAL
    ),
    "joins_embedding with AttentionSpec, an input_size of 24": lambda: dataclasses.replace(
        JOINED, residual_scale=0.5
    ),
    "joins_embedding with ShortConvolutionSpec": lambda: dataclasses.replace(STATEFUL, joins_embedding=True),
    "ShortConvolutionSpec: kernel is 1, expected 2 or more": lambda: ShortConvolutionSpec(12, 1),
    "ShortConvolutionSpec: hidden_size is 0": lambda: ShortConvolutionSpec(0, 3),
    "ShortConvolutionSpec with cross attention or an adapter": lambda: dataclasses.replace(
        STATEFUL, cross_attention=SELF
    ),
    "ShortConvolutionSpec with cross attention or an": lambda: dataclasses.replace(
        STATEFUL, placement=NormPlacement.PRE, adapter=AdapterSpec(NORM, FEED)
    ),
    "ShortConvolutionSpec beside ShortConvolutionSpec": lambda: dataclasses.replace(
        STATEFUL, beside=ShortConvolutionSpec(12, 3)
    ),
    "beside AttentionSpec, placement 'post'": lambda: dataclasses.replace(
        STATEFUL, attention=CAUSAL, placement=NormPlacement.POST, beside=ShortConvolutionSpec(12, 3)
    ),
    "feed_forward is None with ShortConvolutionSpec, placement 'post'": lambda: dataclasses.replace(
        STATEFUL, feed_forward=None
    ),
    "feed_forward is None with AttentionSpec": lambda: dataclasses.replace(
        BLOCK, feed_forward=None, placement=NormPlacement.POST
    ),
    "relative is given, expected None in a stack with states": lambda: dataclasses.replace(
        MIXED, relative=RelativeSpec(8, 20, True)
    ),
    "FeedForwardSpec is 12 wide, attention 10": lambda: dataclasses.replace(
        STATEFUL, attention=ShortConvolutionSpec(10, 3)
    ),
    "EncoderSpec: only a decoder keeps states; blocks of an encoder have ShortConvolutionSpec": lambda: (
        EncoderSpec(encoder=MIXED)
    ),
    "EncoderDecoderSpec: only a decoder keeps states": lambda: EncoderDecoderSpec(MIXED, CROSSED, CAUSAL_LM),
    "DualEncoderSpec: only a decoder keeps states": lambda: DualEncoderSpec(MIXED, VISION, 8, Pick.LAST),
    "AttentionSpec: value_norm with head_norm=None": lambda: dataclasses.replace(CAUSAL, value_norm=True),
    "AttentionSpec: keys_as_values with joint_norm=False, source_size=10": lambda: dataclasses.replace(
        SELF, keys_as_values=True, source_size=10
    ),
    "SharedAttentionSpec: layer is -1": lambda: SharedAttentionSpec(CAUSAL, -1),
    "SharedAttentionSpec: attention with causal=False": lambda: SharedAttentionSpec(SELF, 0),
    "SharedAttentionSpec with cross attention": lambda: dataclasses.replace(
        CROSSING, attention=SharedAttentionSpec(CAUSAL, 0)
    ),
    "layer 0 reads the keys and values of layer 0": lambda: dataclasses.replace(SHARING, blocks=(READING,)),
    "layer 1 reads the keys and values of layer 1": lambda: dataclasses.replace(
        SHARING, blocks=(SANDWICH, dataclasses.replace(READING, attention=SharedAttentionSpec(CAUSAL, 1)))
    ),
    "layer 1 reads 1 heads of 4, but layer 0 has 3 of 4": lambda: dataclasses.replace(
        SHARING,
        blocks=(
            SANDWICH,
            dataclasses.replace(
                READING, attention=SharedAttentionSpec(dataclasses.replace(CAUSAL, num_kv_heads=1), 0)
            ),
        ),
    ),
    "layer_inputs of 6 numbers, but a layer reads 5": lambda: dataclasses.replace(
        GIVEN, layer_inputs=LayerInputsSpec(31, NormSpec(6, 1e-5))
    ),
    "layer_inputs of None numbers, but a layer reads 5": lambda: dataclasses.replace(
        GIVEN, layer_inputs=None
    ),
    "LayerInputsSpec: vocab_size is 0": lambda: LayerInputsSpec(0, NORM),
    "LayerInputSpec: size is 0": lambda: dataclasses.replace(OWN, size=0),
    "the norm of layer_input is 5 wide, attention 12": lambda: dataclasses.replace(
        SANDWICH, layer_input=dataclasses.replace(OWN, norm=NormSpec(5, 1e-5))
    ),
    "LayerInputSpec is 10 wide, attention 12": lambda: dataclasses.replace(
        SANDWICH, layer_input=dataclasses.replace(OWN, hidden_size=10)
    ),
    "DualEncoderSpec: layers read layer_inputs": lambda: DualEncoderSpec(SHARING, VISION, 8, Pick.LAST),
    "EncoderSpec: layers read layer_inputs": lambda: EncoderSpec(encoder=GIVEN),
    "EncoderSpec: layers read layer_inputs, images, or keys and values of another layer": lambda: EncoderSpec(
        encoder=dataclasses.replace(
            DECODER, blocks=(dataclasses.replace(SANDWICH, augmented_residual=RESIDUAL),)
        )
    ),
    "StreamsSpec: count is 1, expected 2 or more": lambda: StreamsSpec(1, NORM),
    "AugmentedResidualSpec: rank is 0": lambda: AugmentedResidualSpec(12, 0, NORM),
    "AugmentedResidualSpec: the norm is 5 wide": lambda: AugmentedResidualSpec(12, 4, NormSpec(5, 1e-5)),
    "AugmentedResidualSpec is 10 wide, attention 12": lambda: dataclasses.replace(
        SANDWICH, augmented_residual=AugmentedResidualSpec(10, 4, NormSpec(10, 1e-5))
    ),
    "BlockSpec: streams with placement 'pre'": lambda: dataclasses.replace(
        STREAMED, placement=NormPlacement.PRE, augmented_residual=None
    ),
    "BlockSpec: augmented_residual with placement 'post'": lambda: dataclasses.replace(
        BLOCK, augmented_residual=RESIDUAL
    ),
    "BlockSpec: streams with placement 'sandwich', output_scale=True": lambda: dataclasses.replace(
        STREAMED, output_scale=True
    ),
    "BlockSpec: streams without layer_input": lambda: dataclasses.replace(STREAMED, layer_input=None),
    "the norm of streams is 5 wide, attention 12": lambda: dataclasses.replace(
        STREAMED, streams=StreamsSpec(3, NormSpec(5, 1e-5))
    ),
    "layers with StreamsSpec": lambda: dataclasses.replace(
        SEVERAL, blocks=(STREAMED, dataclasses.replace(STREAMED, streams=None))
    ),
    "XieluFeedForwardSpec: intermediate_size is 0": lambda: XieluFeedForwardSpec(12, 0),
    "FeedForwardSpec: up_groups is 5 with gated=False": lambda: dataclasses.replace(FEED, up_groups=5),
    "FeedForwardSpec: down_groups is 2 with gated=True": lambda: dataclasses.replace(
        FEED, down_groups=2, gated=True
    ),
    "AttentionSpec: k_groups is 5 with causal=False": lambda: dataclasses.replace(SELF, k_groups=5),
    "AttentionSpec: o_groups is 2 with causal=True": lambda: dataclasses.replace(CAUSAL, o_groups=2),
    "TextStackSpec: masked_output is True, but attention is causal": lambda: dataclasses.replace(
        DECODER, masked_output=True
    ),
    "AttentionSpec: v_groups is 0": lambda: dataclasses.replace(SELF, v_groups=0),
    "FeedForwardSpec: cutoff is 1.5 with gated=False": lambda: dataclasses.replace(FEED, cutoff=1.5),
    "FeedForwardSpec: cutoff is 1.5 with gated=True, clip=2.0": lambda: dataclasses.replace(
        FEED, cutoff=1.5, gated=True, clip=2.0
    ),
    "DenseAndExpertsSpec: the network is 12 wide, experts 12, the norm 5": lambda: dataclasses.replace(
        BESIDE, norm=NormSpec(5, 1e-5)
    ),
    "DenseAndExpertsSpec: experts with a shared one": lambda: dataclasses.replace(
        BESIDE, experts=dataclasses.replace(EXPERTS, output_bias=True)
    ),
    "BlockSpec: DenseAndExpertsSpec with placement 'post'": lambda: dataclasses.replace(
        BLOCK, feed_forward=BESIDE
    ),
    "needs a decoder": lambda: EncoderSpec(encoder=ENCODER, head=CAUSAL_LM),
    "nothing to cross-attend to": lambda: EncoderSpec(encoder=CROSSED),
    "DecoderSpec: unknown fields pooler": lambda: from_dict(
        ModelSpec, to_dict(DecoderSpec(DECODER, CAUSAL_LM)) | {"pooler": True}
    ),
    "a head of 8 numbers is tied to token embeddings of 12": lambda: EncoderSpec(
        encoder=ENCODER, head=dataclasses.replace(MASKED_LM, norm=NormSpec(8, 1e-5))
    ),
    "EncoderSpec: unknown fields shared_embedding": lambda: from_dict(
        ModelSpec, to_dict(EncoderSpec(ENCODER)) | {"shared_embedding": True}
    ),
    "a shared embedding needs two stacks that read tokens": lambda: dataclasses.replace(
        MODELS["hearing"], shared_embedding=True
    ),
    "token embeddings of two shapes": lambda: EncoderDecoderSpec(
        encoder=dataclasses.replace(ENCODER, embedding=dataclasses.replace(EMBEDDING, vocab_size=7)),
        decoder=CROSSED,
        head=CAUSAL_LM,
        shared_embedding=True,
    ),
}


@pytest.mark.parametrize("reason", CONTRADICTIONS)
def test_contradiction_says_why(reason):
    with pytest.raises(SpecError, match=reason.replace("(", r"\(")):
        CONTRADICTIONS[reason]()


LLAMA = dataclasses.replace(
    DECODER,
    embedding=EmbeddingSpec(31, 12, PositionSpec(PositionKind.NONE, 10)),
    blocks=(
        BlockSpec(
            dataclasses.replace(CAUSAL, bias=False, rotary=ROTARY, window=3, head_norm=NormSpec(4, 1e-5)),
            dataclasses.replace(FEED, gated=True, bias=False),
            NormSpec(12, 1e-5, NormKind.RMS),
            NormPlacement.PRE,
        ),
    ),
)
FACTORED = dataclasses.replace(
    ENCODER, embedding=dataclasses.replace(EMBEDDING, factored_size=4, norm=NormSpec(4, 1e-5))
)
RELATIVE = dataclasses.replace(
    ENCODER,
    embedding=EmbeddingSpec(31, 12, PositionSpec(PositionKind.NONE)),
    blocks=(BIASED,),
    relative=RelativeSpec(8, 20, True),
)
DISENTANGLED = dataclasses.replace(
    RELATIVE,
    blocks=(dataclasses.replace(BIASED, attention=DisentangledAttentionSpec(12, 3, 4, shared=False)),),
    relative=RelativeVectorsSpec(20, 8, NORM),
)
SEGMENTED = dataclasses.replace(
    RELATIVE,
    blocks=(dataclasses.replace(BIASED, attention=TransformerXLAttentionSpec(12, 3, 4)),),
    relative=SinusoidVectorsSpec((1.0, 0.5, 0.2, 0.1, 0.05, 0.01), 20),
)
GEMMA = dataclasses.replace(
    LLAMA,
    num_layers=5,
    blocks=tuple(
        dataclasses.replace(
            LLAMA.blocks[0],
            placement=NormPlacement.SANDWICH,
            attention=dataclasses.replace(LLAMA.blocks[0].attention, softcap=50.0, window=window),
        )
        for window in (4, None)
    ),
)
MIXTRAL = dataclasses.replace(LLAMA, blocks=(dataclasses.replace(LLAMA.blocks[0], feed_forward=EXPERTS),))
BARE = dataclasses.replace(BLOCK, placement=NormPlacement.PRE, skip_attention_norm=True, layer_scale=True)
LABELS = HeadSpec(HeadKind.SEQUENCE, tied=False, labels=3, pick=Pick.LAST, pad_token_id=1)
LABELLED = HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, labels=3)
HEARING = SignalStackSpec(LogMelSpec(12, 5, 7, Activation.GELU), (BLOCK,), 2)
MODELS = {
    "labels of sounds": EncoderSpec(
        encoder=SignalStackSpec(SpectrogramSpec(12, 7, 9, 4, 2, 3), (WHOLE,), 2, final_norm=NORM),
        head=dataclasses.replace(LABELLED, pick=Pick.FIRST_TWO, norm=NORM),
    ),
    "recognised speech": EncoderSpec(
        encoder=SignalStackSpec(WAVEFORM, (WHOLE,), 2),
        head=HeadSpec(HeadKind.CTC, tied=False, bias=True, labels=9),
    ),
    "recognised speech, shortened": EncoderSpec(
        encoder=SHORTENED, head=HeadSpec(HeadKind.CTC, tied=False, bias=True, labels=9)
    ),
    "recognised speech, squeezed": EncoderSpec(
        encoder=SQUEEZED, head=HeadSpec(HeadKind.CTC, tied=False, bias=True, labels=9)
    ),
    "recognised speech, masked": EncoderSpec(
        encoder=SignalStackSpec(
            dataclasses.replace(
                WAVEFORM, masked=True, convolution_norm=ConvolutionNorm.LAYER, norm=None, final_norm=None
            ),
            (dataclasses.replace(BLOCK, adapter=AdapterSpec(NORM, FEED)),),
            2,
            final_norm=NORM,
        ),
        head=HeadSpec(HeadKind.CTC, tied=False, bias=True, labels=9),
    ),
    "Conformer": EncoderSpec(
        encoder=SignalStackSpec(FramesSpec(12, 5, NormSpec(5, 1e-5)), (KEYED, ROTATED, CONVOLVED), 3),
        head=HeadSpec(HeadKind.CTC, tied=False, bias=True, labels=9),
    ),
    "Conformer of distances": EncoderSpec(
        encoder=SignalStackSpec(
            SubsampledSpec(12, 8, 3, 2, scale=2.5), (DISTANT,), 2, relative=SinusoidVectorsSpec(SIX)
        ),
        head=HeadSpec(HeadKind.CTC, tied=False, bias=True, labels=9),
    ),
    "sum of all layers": EncoderSpec(
        encoder=HEARING,
        head=dataclasses.replace(LABELLED, pick=Pick.GLOBAL_AVERAGE, factored_size=5, factored_bias=True),
        layer_sum=True,
    ),
    "depths": EncoderSpec(encoder=VISION, head=DEEP),
    "poses": EncoderSpec(
        encoder=dataclasses.replace(
            VISION, embedding=PatchSpec(12, (10, 15), 5, tokens=0, border=2, shared_position=True)
        ),
        head=HeadSpec(HeadKind.POSE, tied=False, labels=3, pose=PoseSpec((2,), 5)),
    ),
    "labels of pixels": EncoderSpec(encoder=VISION, head=OF_PATCHES),
    "a pyramid": EncoderSpec(encoder=dataclasses.replace(VISION, num_layers=3), head=LEVELS),
    "vision": EncoderSpec(encoder=VISION, head=LABELLED, distilled=True),
    "two vectors": EncoderSpec(encoder=VISION, head=dataclasses.replace(LABELLED, pick=Pick.FIRST_AND_MEAN)),
    "hearing with a mask": EncoderDecoderSpec(
        encoder=GATED,
        decoder=CROSSED,
        head=CAUSAL_LM,
    ),
    "hearing with a mask, shortened": EncoderDecoderSpec(
        encoder=dataclasses.replace(
            SHORTENED, embedding=dataclasses.replace(WAVEFORM, masked=True), blocks=(BLOCK,)
        ),
        decoder=CROSSED,
        head=CAUSAL_LM,
    ),
    "hearing": EncoderDecoderSpec(encoder=HEARING, decoder=CROSSED, head=CAUSAL_LM),
    "relative": EncoderSpec(encoder=RELATIVE),
    "relative in every layer": EncoderSpec(
        encoder=dataclasses.replace(RELATIVE, relative=RelativeSpec(8, 20, True, every_layer=True))
    ),
    "disentangled": EncoderSpec(encoder=DISENTANGLED, head=LABELS),
    "segmented": EncoderSpec(encoder=SEGMENTED, head=LABELS),
    "alibi": EncoderSpec(encoder=dataclasses.replace(RELATIVE, relative=AlibiSpec((0.5, 0.2, 0.1)))),
    "rounded alibi": EncoderSpec(
        encoder=dataclasses.replace(RELATIVE, relative=RoundedAlibiSpec((0.5, 0.2, 0.1), 10, 0.3))
    ),
    "gemma": DecoderSpec(decoder=GEMMA, head=dataclasses.replace(CAUSAL_LM, softcap=30.0)),
    "mixtral": DecoderSpec(decoder=MIXTRAL, head=CAUSAL_LM),
    "bare": EncoderSpec(encoder=dataclasses.replace(ENCODER, blocks=(BARE, BLOCK)), head=LABELS),
    "pretraining": EncoderSpec(
        encoder=ENCODER,
        head=MASKED_LM,
        next_sentence=HeadSpec(HeadKind.SEQUENCE, tied=False, labels=2, activation=Activation.TANH),
    ),
    "factored": EncoderSpec(encoder=FACTORED, head=dataclasses.replace(MASKED_LM, norm=NormSpec(4, 1e-5))),
    "llama": DecoderSpec(decoder=LLAMA, head=CAUSAL_LM),
    "encoder": EncoderSpec(encoder=ENCODER, pooler=True),
    "tower": EncoderSpec(encoder=ENCODER, vector=VectorSpec(norm=NORM, size=5, bias=True)),
    "pooled tower": EncoderSpec(VISION, vector=VectorSpec(pool=POOL)),
    "masked": EncoderSpec(encoder=ENCODER, head=MASKED_LM),
    "untied": EncoderSpec(encoder=ENCODER, head=dataclasses.replace(MASKED_LM, tied=False)),
    "decoder": DecoderSpec(decoder=DECODER, head=CAUSAL_LM),
    "states": DecoderSpec(decoder=MIXED, head=CAUSAL_LM),
    "shared keys": DecoderSpec(decoder=SHARING, head=CAUSAL_LM),
    "xIELU": DecoderSpec(
        decoder=dataclasses.replace(
            DECODER,
            blocks=(dataclasses.replace(BLOCK, attention=CAUSAL, feed_forward=XieluFeedForwardSpec(12, 20)),),
        ),
        head=CAUSAL_LM,
    ),
    "growing queries": DecoderSpec(
        decoder=dataclasses.replace(
            DECODER,
            blocks=(dataclasses.replace(BLOCK, attention=dataclasses.replace(CAUSAL, rotary=GROWING)),),
        ),
        head=CAUSAL_LM,
    ),
    "inputs of layers": DecoderSpec(decoder=GIVEN, head=CAUSAL_LM),
    "several vectors": DecoderSpec(decoder=SEVERAL, head=CAUSAL_LM),
    "experts beside a network": DecoderSpec(
        decoder=dataclasses.replace(
            DECODER, blocks=(dataclasses.replace(SANDWICH, feed_forward=BESIDE),), final_norm=NORM
        ),
        head=CAUSAL_LM,
    ),
    "states, with biases": DecoderSpec(
        decoder=dataclasses.replace(
            MIXED,
            blocks=(
                dataclasses.replace(BLOCK, attention=ShortConvolutionSpec(12, 2, bias=True)),
                *DECODER.blocks,
            ),
        ),
        head=CAUSAL_LM,
    ),
    "embeddings joined": DecoderSpec(dataclasses.replace(DECODER, blocks=(JOINED,)), CAUSAL_LM),
    "both": EncoderDecoderSpec(ENCODER, CROSSED, dataclasses.replace(CAUSAL_LM, bias=True)),
    "projected": EncoderDecoderSpec(NARROWER, CROSSED, CAUSAL_LM, projected=True),
    "another source": EncoderDecoderSpec(NARROWER, dataclasses.replace(CROSSED, blocks=(WIDER,)), CAUSAL_LM),
    "shared": EncoderDecoderSpec(encoder=ENCODER, decoder=CROSSED, head=CAUSAL_LM, shared_embedding=True),
}


@pytest.mark.parametrize("name", MODELS)
def test_survives_json(name):
    spec = MODELS[name]
    assert from_dict(ModelSpec, json.loads(json.dumps(to_dict(spec)))) == spec


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_of_the_pytorch_model(name):
    declared = {key: tuple(value.shape) for key, value in transformer(MODELS[name]).named_parameters()}
    assert list(declared.items()) == list(parts.parameters(MODELS[name]).items())


def test_unknown_field_is_an_error():
    with pytest.raises(SpecError, match="unknown fields dropout"):
        from_dict(NormSpec, {"size": 4, "eps": 1e-5, "dropout": 0.1})


def test_a_member_of_a_union_is_known_by_its_type_alone():
    """Two classes with equal fields must not be confused."""
    local = LocalAttentionSpec(12, 3, 4, 5)
    values = to_dict(local)
    assert values["type"] == "local"
    assert to_dict(BLOCK)["attention"]["type"] == "attention"
    assert from_dict(AttentionSpec | LocalAttentionSpec, values) == local
    with pytest.raises(SpecError, match=r"type 'local' is not known; expected attention or strided$"):
        from_dict(AttentionSpec | StridedAttentionSpec, values)
    for wrong in ({"type": ["local"]}, {"type": None}, {"type": "deberta"}):
        with pytest.raises(SpecError, match=r"is not known; expected attention or local$"):
            from_dict(AttentionSpec | LocalAttentionSpec, values | wrong)
    del values["type"]
    with pytest.raises(SpecError, match=r"no type is given; expected attention or local$"):
        from_dict(AttentionSpec | LocalAttentionSpec, values)


def test_every_member_of_a_union_has_a_type():
    specs = [getattr(txexport.spec, name) for name in txexport.spec.__all__]
    classes = [kind for kind in specs if dataclasses.is_dataclass(kind)]
    hints = [hint for kind in classes for hint in get_type_hints(kind).values()]
    unions = [hint for hint in (*hints, *specs) if isinstance(hint, types.UnionType)]
    members = [[kind for kind in get_args(one) if dataclasses.is_dataclass(kind)] for one in unions]
    tagged = {kind for kinds in members if len(kinds) > 1 for kind in kinds}
    assert len(tagged) > 12
    assert tagged <= set(TYPES.values())


def test_limit_leaves_out_the_offset():
    assert PositionSpec(PositionKind.LEARNED, 12, 2).limit == 10
    assert PositionSpec(PositionKind.NONE).limit is None


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (8, 20), (16, 50), (32, 64)])
def test_buckets_are_those_of_the_original(buckets, reach, bidirectional):
    """A distance on the edge of two buckets must not fall to the other side."""
    spec = RelativeSpec(buckets, reach, bidirectional)
    before = -torch.arange(0, 3 * reach)
    original = T5Attention._relative_position_bucket(before, bidirectional, buckets, reach)
    table = spec.bucket_of_distance()
    assert [table[min(-int(distance), reach)] for distance in before] == original.tolist()


@pytest.mark.parametrize(("buckets", "reach"), [(256, 512), (256, 1680), (32, 128), (8, 20), (4, 40)])
def test_buckets_of_vectors_are_those_of_the_original(buckets, reach):
    """Up to the end of the span, which is the original's."""
    spec = RelativeVectorsSpec(reach, buckets)
    distances = torch.arange(0, 3 * reach)
    table = [spec.bucket_of_distance()[min(int(distance), reach)] for distance in distances]
    for sign in (1, -1):
        original = make_log_bucket_position(sign * distances, buckets, reach).long()
        ends = [max(-buckets, min(sign * bucket, buckets - 1)) for bucket in table]
        assert ends == original.clamp(-buckets, buckets - 1).tolist()


@pytest.mark.parametrize(("longest", "limit"), [(None, 7), (5, 5), (9, 7)])
def test_longest_sequence_is_that_of_the_table_or_less(longest, limit):
    assert PositionSpec(PositionKind.LEARNED, 9, offset=2, longest=longest).limit == limit


POOLED = {"text_bias": True, "vision_pool": POOL, "sigmoid_scores": True}


@pytest.mark.parametrize(
    "spec",
    [
        DualEncoderSpec(ENCODER, VISION, 6, Pick.FIRST_EOS, 30),
        DualEncoderSpec(ENCODER, VISION, 12, Pick.FINAL, **POOLED),
    ],
    ids=lambda spec: spec.pick,
)
def test_towers_survive_json_and_have_the_modules_parameters(spec):
    assert from_dict(ModelSpec, json.loads(json.dumps(to_dict(spec)))) == spec
    declared = {key: tuple(value.shape) for key, value in transformer(spec).named_parameters()}
    assert declared == parts.parameters(spec)


def test_renamed_names_are_stored_as_before():
    """Manifests of released formats have the older names."""
    spec = DualEncoderSpec(ENCODER, VISION, 12, Pick.FINAL, **POOLED)
    stored = to_dict(spec)
    assert "sigmoid_scores" not in stored
    assert stored["scored_alone"] is True
    older = stored | {"scored_alone": False}
    assert from_dict(ModelSpec, older) == dataclasses.replace(spec, sigmoid_scores=False)
    renamed = (Pick.FIRST_UNMASKED, Pick.LAST_UNMASKED, Pick.MEAN_AFTER_DENSE, Pick.GLOBAL_AVERAGE)
    assert renamed == ("first_seen", "last_seen", "mean_late", "mean_behind")
