"""Omnilingual ASR (2025) with a CTC head: wav2vec 2.0's pre-norm encoder without weight norms."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import _sound_heads
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    ConvolutionNorm,
    ConvolutionSpec,
    EncoderSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    SignalStackSpec,
    WaveformSpec,
)

TASKS = {_sound_heads.CTC: ("OmniASRForCTC",)}
NAMING = Naming("model.audio_tower.")
# The library's names of the graph's inputs; its waveforms have an axis of one channel.
LIBRARY_INPUTS = {"attention_mask": "padding_mask"}
LIBRARY_CHANNELS = True
CONVOLUTIONS = {
    "conv_dim": [512] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    head = config.with_defaults(vocab_size=10288)
    config = config.table("audio_config").with_defaults(**CONVOLUTIONS)
    width, heads = config.integer("hidden_size", 1024), config.integer("num_attention_heads", 16)
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-5))
    activation = config.activation("hidden_act", "gelu")
    rows = config.rows(*CONVOLUTIONS, of="convolution")
    convolutions = tuple(ConvolutionSpec(*numbers) for numbers in rows)
    sound = WaveformSpec(
        width,
        convolutions,
        activation,
        norm=NormSpec(convolutions[-1].size, norm.eps),
        final_norm=None,
        position_kernel=config.integer("num_conv_pos_embeddings", 128),
        position_groups=config.integer("num_conv_pos_embedding_groups", 16),
        bias=config.flag("conv_bias", True),
        convolution_norm=ConvolutionNorm.LAYER,
        masked=True,
        normed_state=True,
    )
    block = BlockSpec(
        AttentionSpec(width, heads, heads, config.head_dim(width, heads), causal=False),
        FeedForwardSpec(width, config.integer("intermediate_size", 4096), activation),
        norm,
        NormPlacement.PRE,
    )
    stack = SignalStackSpec(sound, (block,), config.count("num_hidden_layers", 24), final_norm=norm)
    return _sound_heads.model(head, task, stack)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    sound, layer, theirs = "encoder.embedding", "encoder.layers.{i}", "layers.{i}"
    embedding = spec.encoder.embedding
    assert isinstance(embedding, WaveformSpec)
    rules: Rules = {}
    for number in range(len(embedding.convolutions)):
        source = f"subsampling.conv_layers.{number}"
        rules[f"{sound}.convolutions.{number}.*"] = f"{source}.conv.*"
        rules[f"{sound}.convolution_norms.{number}.*"] = f"{source}.layer_norm.*"
    rules |= {
        f"{sound}.norm.*": "subsampling.layer_norm.*",
        f"{sound}.project.*": "subsampling.projection.*",
        f"{sound}.position.*": "encode_positions.conv.*",
        "encoder.final_norm.*": "layer_norm.*",
        **{f"{layer}.attention.{part}.*": f"{theirs}.attention.{part}_proj.*" for part in "qkv"},
        f"{layer}.attention.o.*": f"{theirs}.attention.out_proj.*",
        f"{layer}.attention_norm.*": f"{theirs}.layer_norm.*",
        f"{layer}.feed_forward.up.*": f"{theirs}.feed_forward.intermediate_dense.*",
        f"{layer}.feed_forward.down.*": f"{theirs}.feed_forward.output_dense.*",
        f"{layer}.feed_forward_norm.*": f"{theirs}.final_layer_norm.*",
        "head.*": "ctc_head.*",
    }
    return Table(rules, NAMING)
