"""The function of each kind of sublayer."""

from collections.abc import Callable

import onnx_ir as ir

from txexport.spec import (
    AttentionSpec,
    BottleneckSpec,
    ConvolvedAttentionSpec,
    ConvolvedFeedForwardSpec,
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
    ShortConvolutionSpec,
    StridedAttentionSpec,
    TransformerXLAttentionSpec,
    WindowAttentionSpec,
    XieluFeedForwardSpec,
)
from txgraphs.attention import attention, cached_attention
from txgraphs.bottleneck import bottleneck
from txgraphs.convolved_attention import convolved_attention
from txgraphs.disentangled_attention import disentangled_attention
from txgraphs.experts import experts
from txgraphs.feedforward import feed_forward
from txgraphs.fourier_mixing import fourier_mixing
from txgraphs.gated_delta import gated_delta
from txgraphs.grid_attention import grid_attention
from txgraphs.kimi_delta import kimi_delta
from txgraphs.latent_attention import cached_latent_attention, latent_attention
from txgraphs.linformer_attention import linformer_attention
from txgraphs.local_attention import local_attention
from txgraphs.longformer_attention import longformer_attention
from txgraphs.low_rank_attention import low_rank_attention
from txgraphs.mamba import mamba
from txgraphs.mamba2 import mamba2
from txgraphs.patch_bias_attention import patch_bias_attention
from txgraphs.performer_attention import performer_attention
from txgraphs.reduced_attention import convolved_feed_forward, reduced_attention
from txgraphs.rg_lru import rg_lru
from txgraphs.short_convolution import short_convolution
from txgraphs.strided_attention import strided_attention
from txgraphs.transformer_xl_attention import transformer_xl_attention
from txgraphs.window_attention import window_attention
from txgraphs.xielu import xielu_feed_forward

WEIGHING_ATTENTIONS: dict[type, Callable[..., tuple[ir.Value, ...]]] = {
    AttentionSpec: attention,
    LatentAttentionSpec: latent_attention,
    DisentangledAttentionSpec: disentangled_attention,
    TransformerXLAttentionSpec: transformer_xl_attention,
}
CACHED_ATTENTIONS: dict[type, Callable[..., tuple[ir.Value, ...]]] = {
    AttentionSpec: cached_attention,
    LatentAttentionSpec: cached_latent_attention,
}
STATEFUL: dict[type, Callable[..., tuple[ir.Value, ...]]] = {
    ShortConvolutionSpec: short_convolution,
    GatedDeltaSpec: gated_delta,
    KimiDeltaSpec: kimi_delta,
    Mamba2Spec: mamba2,
    MambaSpec: mamba,
    RgLruSpec: rg_lru,
}
SPARSE_ATTENTIONS: dict[type, Callable[..., ir.Value]] = {
    LocalAttentionSpec: local_attention,
    StridedAttentionSpec: strided_attention,
    LongformerAttentionSpec: longformer_attention,
    LinformerAttentionSpec: linformer_attention,
    LowRankAttentionSpec: low_rank_attention,
    PerformerAttentionSpec: performer_attention,
    WindowAttentionSpec: window_attention,
    PatchBiasAttentionSpec: patch_bias_attention,
    GridAttentionSpec: grid_attention,
    ReducedAttentionSpec: reduced_attention,
    BottleneckSpec: bottleneck,
    FourierMixingSpec: fourier_mixing,
    ConvolvedAttentionSpec: convolved_attention,
}
FEED_FORWARDS: dict[type, Callable[..., ir.Value]] = {
    FeedForwardSpec: feed_forward,
    ExpertsSpec: experts,
    ConvolvedFeedForwardSpec: convolved_feed_forward,
    XieluFeedForwardSpec: xielu_feed_forward,
}
