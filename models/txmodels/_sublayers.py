"""The module of each kind of sublayer."""

from collections.abc import Callable

from torch import nn

from txexport.spec import (
    AttentionSpec,
    BottleneckSpec,
    ConvolvedAttentionSpec,
    ConvolvedFeedForwardSpec,
    DenseAndExpertsSpec,
    DisentangledAttentionSpec,
    ExpertsSpec,
    FeedForwardSpec,
    FourierMixingSpec,
    GatedDeltaSpec,
    GridAttentionSpec,
    KimiDeltaSpec,
    LatentAttentionSpec,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    Mamba2Spec,
    MambaSpec,
    PatchBiasAttentionSpec,
    PerformerAttentionSpec,
    ReducedAttentionSpec,
    RgLruSpec,
    SharedAttentionSpec,
    ShortConvolutionSpec,
    StridedAttentionSpec,
    TransformerXLAttentionSpec,
    WindowAttentionSpec,
    XieluFeedForwardSpec,
)
from txmodels.attention import Attention, CachedAttention
from txmodels.bottleneck import Bottleneck
from txmodels.convolved_attention import ConvolvedAttention
from txmodels.dense_and_experts import DenseAndExperts
from txmodels.disentangled_attention import DisentangledAttention
from txmodels.experts import Experts
from txmodels.feedforward import FeedForward
from txmodels.fourier_mixing import FourierMixing
from txmodels.gated_delta import GatedDelta
from txmodels.grid_attention import GridAttention
from txmodels.kimi_delta import KimiDelta
from txmodels.latent_attention import CachedLatentAttention, LatentAttention
from txmodels.linformer_attention import LinformerAttention
from txmodels.local_attention import LocalAttention
from txmodels.longformer_attention import LongformerAttention
from txmodels.low_rank_attention import LowRankAttention
from txmodels.mamba import Mamba
from txmodels.mamba2 import Mamba2
from txmodels.patch_bias_attention import PatchBiasAttention
from txmodels.performer_attention import PerformerAttention
from txmodels.reduced_attention import ConvolvedFeedForward, ReducedAttention
from txmodels.rg_lru import RgLru
from txmodels.shared_attention import SharedAttention
from txmodels.short_convolution import ShortConvolution
from txmodels.strided_attention import StridedAttention
from txmodels.transformer_xl_attention import TransformerXLAttention
from txmodels.window_attention import WindowAttention
from txmodels.xielu import XieluFeedForward

WEIGHING_ATTENTIONS: dict[type, Callable[..., nn.Module]] = {
    AttentionSpec: Attention,
    LatentAttentionSpec: LatentAttention,
    DisentangledAttentionSpec: DisentangledAttention,
    TransformerXLAttentionSpec: TransformerXLAttention,
}
CACHED_ATTENTIONS: dict[type, Callable[..., nn.Module]] = {
    AttentionSpec: CachedAttention,
    LatentAttentionSpec: CachedLatentAttention,
    SharedAttentionSpec: SharedAttention,
}
STATEFUL: dict[type, Callable[..., nn.Module]] = {
    ShortConvolutionSpec: ShortConvolution,
    GatedDeltaSpec: GatedDelta,
    KimiDeltaSpec: KimiDelta,
    Mamba2Spec: Mamba2,
    MambaSpec: Mamba,
    RgLruSpec: RgLru,
}
SPARSE_ATTENTIONS: dict[type, Callable[..., nn.Module]] = {
    LocalAttentionSpec: LocalAttention,
    StridedAttentionSpec: StridedAttention,
    LongformerAttentionSpec: LongformerAttention,
    LinformerAttentionSpec: LinformerAttention,
    LowRankAttentionSpec: LowRankAttention,
    PerformerAttentionSpec: PerformerAttention,
    WindowAttentionSpec: WindowAttention,
    PatchBiasAttentionSpec: PatchBiasAttention,
    GridAttentionSpec: GridAttention,
    ReducedAttentionSpec: ReducedAttention,
    BottleneckSpec: Bottleneck,
    FourierMixingSpec: FourierMixing,
    ConvolvedAttentionSpec: ConvolvedAttention,
}
FEED_FORWARDS: dict[type, Callable[..., nn.Module]] = {
    FeedForwardSpec: FeedForward,
    ExpertsSpec: Experts,
    ConvolvedFeedForwardSpec: ConvolvedFeedForward,
    DenseAndExpertsSpec: DenseAndExperts,
    XieluFeedForwardSpec: XieluFeedForward,
}
