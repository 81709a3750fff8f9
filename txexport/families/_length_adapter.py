"""`add_adapter` of wav2vec 2.0 and its children: layers that shorten the encoder's output."""

from txexport.checkpoints.weight_map import Rules
from txexport.errors import UnsupportedError
from txexport.families._config import Config
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EncoderSpec,
    FeedForwardSpec,
    LengthAdapterSpec,
    NormPlacement,
    NormSpec,
)
from txexport.spec.lengths import adapter_of

OURS, THEIRS = "encoder.length_adapter", "adapter"
EPSILON = 1e-5  # of the projection's norm in all but wav2vec2-bert, fixed in the originals


def of_waveforms(config: Config, width: int) -> LengthAdapterSpec | None:
    """Gated convolutions behind a stack of that width; None where config.json has no adapter."""
    if not config.flag("add_adapter", False):
        return None
    config = config.with_defaults(adapter_kernel_size=3, adapter_stride=2, num_adapter_layers=3)
    size, kernel = _output_size(config, width), config.integer("adapter_kernel_size")
    if kernel != 3:  # the original counts a row's vectors as those of kernels of 3
        raise UnsupportedError(f"{config.path}: adapter_kernel_size={kernel} is not supported; expected 3")
    return LengthAdapterSpec(
        size,
        config.count("num_adapter_layers"),
        kernel,
        config.integer("adapter_stride"),
        padding=1,
        norm=NormSpec(size, EPSILON) if size != width else None,
    )


def of_frames(config: Config, width: int) -> LengthAdapterSpec | None:
    """Layers with attention behind wav2vec2-bert; None where config.json has no adapter."""
    if not config.flag("add_adapter", False):
        config.expect(use_intermediate_ffn_before_adapter=False)
        return None
    config = config.with_defaults(adapter_kernel_size=3, adapter_stride=2, num_adapter_layers=1)
    kernel, stride = config.integer("adapter_kernel_size"), config.integer("adapter_stride")
    if kernel // 2 != stride // 2:  # by these the original counts a row's vectors, and pads
        raise UnsupportedError(
            f"{config.path}: adapter_kernel_size={kernel} with adapter_stride={stride} is not supported; "
            "expected equal halves, rounded down"
        )
    size, heads = _output_size(config, width), config.integer("num_attention_heads", 16)
    norm = NormSpec(size, config.number("layer_norm_eps", 1e-5))
    wide = config.integer("intermediate_size", 4096)
    block = BlockSpec(
        AttentionSpec(size, heads, heads, config.head_dim(size, heads), causal=False),
        FeedForwardSpec(size, wide, config.activation("adapter_act", "relu")),
        norm,
        NormPlacement.PRE,
    )
    before = config.flag("use_intermediate_ffn_before_adapter", False)
    return LengthAdapterSpec(
        size,
        config.count("num_adapter_layers"),
        kernel,
        stride,
        padding=stride // 2,
        norm=norm if size != width else None,
        block=block,
        feed_forward=FeedForwardSpec(width, wide, Activation.RELU) if before else None,
    )


def _output_size(config: Config, width: int) -> int:
    """The width behind the adapter; 0 and null mean the encoder's."""
    return config.integer("output_hidden_size") if config.values.get("output_hidden_size") else width


def rules(spec: EncoderSpec) -> Rules:
    """The tensor names of the adapter; none without one."""
    adapter = adapter_of(spec.encoder)
    if adapter is None:
        return {}
    project: Rules = {
        f"{OURS}.project.*": f"{THEIRS}.proj.*",
        f"{OURS}.norm.*": f"{THEIRS}.proj_layer_norm.*",
    }
    if adapter.block is None:
        return project | {f"{OURS}.convolutions.{{i}}.*": f"{THEIRS}.layers.{{i}}.conv.*"}
    ours, theirs = f"{OURS}.layers.{{i}}", f"{THEIRS}.layers.{{i}}"
    return project | {
        f"{OURS}.before.feed_forward.up.*": "intermediate_ffn.intermediate_dense.*",
        f"{OURS}.before.feed_forward.down.*": "intermediate_ffn.output_dense.*",
        f"{ours}.residual_norm.*": f"{theirs}.residual_layer_norm.*",
        f"{ours}.residual.*": f"{theirs}.residual_conv.*",
        f"{ours}.attention_norm.*": f"{theirs}.self_attn_layer_norm.*",
        f"{ours}.convolution.*": f"{theirs}.self_attn_conv.*",
        **{f"{ours}.attention.{part}.*": f"{theirs}.self_attn.linear_{part}.*" for part in "qkv"},
        f"{ours}.attention.o.*": f"{theirs}.self_attn.linear_out.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.ffn_layer_norm.*",
        f"{ours}.feed_forward.up.*": f"{theirs}.ffn.intermediate_dense.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.ffn.output_dense.*",
    }
