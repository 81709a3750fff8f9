"""Parakeet (Rekesh et al. 2023): a Fast Conformer, whose spectrogram is subsampled by 8, with a CTC head."""

from math import log2, sqrt

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families._config import Config, TensorNames
from txexport.families._rope import plain_frequencies
from txexport.spec import (
    BatchNormSpec,
    BlockSpec,
    ConvolutionModuleSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    SignalStackSpec,
    SinusoidVectorsSpec,
    SubsampledSpec,
    TransformerXLAttentionSpec,
)

TASKS = {"automatic-speech-recognition": ("ParakeetForCTC",)}

NAMING = Naming("model.")
EPSILON, BASE = 1e-5, 10000.0  # fixed in the original, not in config.json


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    labels, config = config.integer("vocab_size", 1025), config.table("encoder_config")
    width, heads = config.integer("hidden_size", 1024), config.integer("num_attention_heads", 8)
    norm, bias = NormSpec(width, EPSILON), config.flag("attention_bias", True)
    activation = config.activation("hidden_act", "silu")
    convolution = ConvolutionModuleSpec(
        width,
        config.integer("conv_kernel_size", 9),
        activation,
        batch_norm=BatchNormSpec(width, EPSILON),
        bias=config.flag("convolution_bias", True),
    )
    head_dim = config.integer("head_dim", config.head_dim(width, heads))
    block = BlockSpec(
        TransformerXLAttentionSpec(width, heads, head_dim, segmented=False, bias=bias),
        FeedForwardSpec(width, config.integer("intermediate_size", 4096), activation, bias),
        norm,
        NormPlacement.PRE,
        convolution=convolution,
    )
    stack = SignalStackSpec(
        _subsampled(config, width),
        (block,),
        config.count("num_hidden_layers", 24),
        relative=SinusoidVectorsSpec(plain_frequencies(BASE, width), interleaved=True),
    )
    head = HeadSpec(HeadKind.CTC, tied=False, bias=True, labels=labels)
    return EncoderSpec(encoder=stack, head=head)


def _subsampled(config: Config, width: int) -> SubsampledSpec:
    """The convolutions that subsample a spectrogram; their number is the logarithm of the factor."""
    factor, stride = config.integer("subsampling_factor", 8), config.integer("subsampling_conv_stride", 2)
    kernel, bins = config.integer("subsampling_conv_kernel_size", 3), config.integer("num_mel_bins", 80)
    if factor < 2 or stride < 1 or kernel < 1:
        raise UnsupportedError(
            f"{config.path}: subsampling_factor is {factor}, subsampling_conv_stride {stride} and "
            f"subsampling_conv_kernel_size {kernel}; expected 2 or more, 1 or more and 1 or more"
        )
    channels, scale = config.integer("subsampling_conv_channels", 256), config.flag("scale_input", True)
    sound = SubsampledSpec(
        width, bins, channels, int(log2(factor)), kernel, stride, sqrt(width) if scale else 1.0
    )
    if sound.bands != bins // sound.vector_stride:
        raise UnsupportedError(
            f"{config.path}: num_mel_bins={bins} is not supported; expected a multiple of "
            f"{sound.vector_stride}, the stride of all convolutions"
        )
    return sound


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; the head is a convolution over one vector."""
    embedding, attention = spec.encoder.embedding, spec.encoder.blocks[0].attention
    assert isinstance(embedding, SubsampledSpec)
    assert isinstance(attention, TransformerXLAttentionSpec)
    by_head = attention.num_heads, attention.head_dim
    ours, theirs, subsampling = "encoder.embedding", "encoder.layers.{i}", "encoder.subsampling"
    rules: Rules = {
        f"{ours}.first.*": f"{subsampling}.layers.0.*",
        f"{ours}.project.*": f"{subsampling}.linear.*",
        "head.weight": Take("ctc_head.weight", trailing_axis=True),
        "head.bias": "ctc_head.bias",
    }
    for number in range(embedding.layers - 1):  # a ReLU is behind the first, and behind each pair
        rules[f"{ours}.depthwise.{number}.*"] = f"{subsampling}.layers.{2 + 3 * number}.*"
        rules[f"{ours}.pointwise.{number}.*"] = f"{subsampling}.layers.{3 + 3 * number}.*"
    layer, convolution = theirs, f"{theirs}.conv"
    for name, original in (("feed_forward", "feed_forward1"), ("last_feed_forward", "feed_forward2")):
        rules |= {
            f"{layer}.{name}_norm.*": f"{theirs}.norm_{original}.*",
            f"{layer}.{name}.up.*": f"{theirs}.{original}.linear1.*",
            f"{layer}.{name}.down.*": f"{theirs}.{original}.linear2.*",
        }
    for name, original in (("pointwise_in", "pointwise_conv1"), ("pointwise_out", "pointwise_conv2")):
        rules[f"{layer}.convolution.{name}.weight"] = Take(
            f"{convolution}.{original}.weight", trailing_axis=True
        )
        rules[f"{layer}.convolution.{name}.bias"] = f"{convolution}.{original}.bias"
    rules |= {
        f"{layer}.convolution.depthwise.*": f"{convolution}.depthwise_conv.*",
        f"{layer}.convolution.depthwise_norm.mean": f"{convolution}.norm.running_mean",
        f"{layer}.convolution.depthwise_norm.variance": f"{convolution}.norm.running_var",
        f"{layer}.convolution.depthwise_norm.*": f"{convolution}.norm.*",
        f"{layer}.convolution_norm.*": f"{theirs}.norm_conv.*",
        **{f"{layer}.attention.{part}.*": f"{theirs}.self_attn.{part}_proj.*" for part in "qkvo"},
        f"{layer}.attention.k_position.weight": f"{theirs}.self_attn.relative_k_proj.weight",
        f"{layer}.attention.content_bias": Take(f"{theirs}.self_attn.bias_u", apart=by_head),
        f"{layer}.attention.position_bias": Take(f"{theirs}.self_attn.bias_v", apart=by_head),
        f"{layer}.attention_norm.*": f"{theirs}.norm_self_att.*",
        f"{layer}.final_norm.*": f"{theirs}.norm_out.*",
    }
    return Table(rules, NAMING, drop=("encoder.layers.*.conv.norm.num_batches_tracked",))
