"""wav2vec 2.0 (Baevski et al. 2020): convolutions over a waveform before BERT, or before a pre-norm stack."""

from dataclasses import replace

from txexport.checkpoints.checkpoint import read_json
from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _length_adapter, _sound_heads
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    Activation,
    AdapterSpec,
    AttentionSpec,
    BlockSpec,
    ConvolutionNorm,
    ConvolutionSpec,
    EncoderSpec,
    FeedForwardSpec,
    LengthAdapterSpec,
    NormPlacement,
    NormSpec,
    SignalStackSpec,
    SqueezeSpec,
    WaveformSpec,
)

PRETRAINED = "pretraining, whose head no task reads; export a model that is trained from it"
WITHOUT_HEAD = "hidden states of sounds, which no task gives"
TASKS = _sound_heads.tasks("Wav2Vec2")
REFUSED = {"Wav2Vec2Model": WITHOUT_HEAD, "Wav2Vec2ForPreTraining": PRETRAINED}

CONVOLUTION = "encoder.pos_conv_embed.conv"
NORMS, DIRECTION = (f".parametrizations.weight.original{number}" for number in range(2))
RENAMED = {".weight_g": NORMS, ".weight_v": DIRECTION}
NAMING = Naming("wav2vec2.", RENAMED)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    sound = embedding(config)
    return model(config, task, sound, adapter=_length_adapter.of_waveforms(config, sound.hidden_size))


def model(
    config: Config,
    task: str,
    sound: WaveformSpec,
    squeeze: SqueezeSpec | None = None,
    adapter: LengthAdapterSpec | None = None,
) -> EncoderSpec:
    """Blocks with biases over a waveform, post-norm or "stable", which is pre-norm, under a task's head."""
    width, heads = sound.hidden_size, config.integer("num_attention_heads")
    norm, stable = _norm(config), config.flag("do_stable_layer_norm", False)
    head_dim = config.head_dim(width, heads)
    attention = AttentionSpec(width, heads, heads, head_dim, causal=False, unmasked=not sound.masked)
    feed_forward = FeedForwardSpec(
        width, config.integer("intermediate_size"), config.activation("hidden_act", "gelu")
    )
    block = BlockSpec(attention, feed_forward, norm, NormPlacement.PRE if stable else NormPlacement.POST)
    if stable and config.values.get("adapter_attn_dim") is not None:
        small = FeedForwardSpec(width, config.integer("adapter_attn_dim"), Activation.RELU)
        block = replace(block, adapter=AdapterSpec(NormSpec(width, 1e-5), small))
    layers = config.count("num_hidden_layers")
    final_norm = norm if stable else None
    stack = SignalStackSpec(sound, (block,), layers, final_norm, squeeze=squeeze, length_adapter=adapter)
    return _sound_heads.model(config, task, stack)


def embedding(config: Config) -> WaveformSpec:
    """Convolutions over a waveform, and the positions."""
    norm, stable = _norm(config), config.flag("do_stable_layer_norm", False)
    kind = config.text("feat_extract_norm", ConvolutionNorm.GROUP)
    if kind not in [*ConvolutionNorm]:
        raise UnsupportedError(
            f"{config.path}: feat_extract_norm={shortened(kind)} is not supported; expected one of "
            f"{', '.join(ConvolutionNorm)}"
        )
    convolutions = _convolutions(config)
    return WaveformSpec(
        norm.size,
        convolutions,
        config.activation("feat_extract_activation", "gelu"),
        norm=NormSpec(convolutions[-1].size, norm.eps),
        final_norm=None if stable else norm,
        position_kernel=config.integer("num_conv_pos_embeddings", 128),
        position_groups=config.integer("num_conv_pos_embedding_groups", 16),
        bias=config.flag("conv_bias", False),
        convolution_norm=ConvolutionNorm(kind),
        masked=_masked(config, kind == ConvolutionNorm.LAYER),
    )


def _norm(config: Config) -> NormSpec:
    """The norm of hidden states."""
    return NormSpec(config.integer("hidden_size"), config.number("layer_norm_eps", 1e-5))


def _masked(config: Config, default: bool) -> bool:
    """True where the checkpoint's feature extractor gives a mask; `default` where it has no file of one."""
    processor, extractor = (
        config.path.parent / name for name in ("processor_config.json", "preprocessor_config.json")
    )
    settings = read_json(processor).get("feature_extractor") if processor.is_file() else None
    if not settings and extractor.is_file():
        settings = read_json(extractor)
    if not isinstance(settings, dict) or not settings:
        return default
    return settings.get("return_attention_mask") is True


def _convolutions(config: Config) -> tuple[ConvolutionSpec, ...]:
    """The convolutions over the waveform, in order."""
    rows = config.rows("conv_dim", "conv_kernel", "conv_stride", of="convolution")
    return tuple(ConvolutionSpec(*numbers) for numbers in rows)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return Table(rules(spec), NAMING, _sound_heads.UNUSED)


def rules(spec: EncoderSpec) -> Rules:
    """Rules for the parameters of every family of this kind."""
    sound, layer = spec.encoder.embedding, "encoder.layers.{i}"
    assert isinstance(sound, WaveformSpec)
    rules: Rules = {
        f"encoder.embedding.convolutions.{number}.*": f"feature_extractor.conv_layers.{number}.conv.*"
        for number in range(len(sound.convolutions))
    }
    for number in range(len(sound.convolutions)):
        layer_norm = f"feature_extractor.conv_layers.{number}.layer_norm.*"
        rules[f"encoder.embedding.convolution_norms.{number}.*"] = layer_norm
    rules |= {
        "encoder.embedding.channel_norm.*": "feature_extractor.conv_layers.0.layer_norm.*",
        "encoder.embedding.norm.*": "feature_projection.layer_norm.*",
        "encoder.embedding.project.*": "feature_projection.projection.*",
        "encoder.embedding.position.weight": Take(CONVOLUTION + DIRECTION, norms=CONVOLUTION + NORMS),
        "encoder.embedding.position.bias": f"{CONVOLUTION}.bias",
        "encoder.embedding.final_norm.*": "encoder.layer_norm.*",
        "encoder.final_norm.*": "encoder.layer_norm.*",
        **{f"{layer}.attention.{part}.*": f"{layer}.attention.{part}_proj.*" for part in "qkv"},
        f"{layer}.attention.o.*": f"{layer}.attention.out_proj.*",
        f"{layer}.attention_norm.*": f"{layer}.layer_norm.*",
        f"{layer}.feed_forward.up.*": f"{layer}.feed_forward.intermediate_dense.*",
        f"{layer}.feed_forward.down.*": f"{layer}.feed_forward.output_dense.*",
        f"{layer}.feed_forward_norm.*": f"{layer}.final_layer_norm.*",
        **_sound_heads.rules(spec),
        **_length_adapter.rules(spec),
        f"{layer}.adapter.norm.*": f"{layer}.adapter_layer.norm.*",
        f"{layer}.adapter.feed_forward.up.*": f"{layer}.adapter_layer.linear_1.*",
        f"{layer}.adapter.feed_forward.down.*": f"{layer}.adapter_layer.linear_2.*",
    }
    return rules
