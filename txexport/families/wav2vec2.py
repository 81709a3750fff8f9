"""wav2vec 2.0 (Baevski et al. 2020): convolutions over a waveform, normalised over time, before BERT."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    ConvolutionSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    SignalStackSpec,
    WaveformSpec,
)

TASKS = {"automatic-speech-recognition": ("Wav2Vec2ForCTC",)}

CONVOLUTION = "encoder.pos_conv_embed.conv"
NORMS, DIRECTION = (f".parametrizations.weight.original{number}" for number in range(2))
NAMING = Naming("wav2vec2.", {".weight_g": NORMS, ".weight_v": DIRECTION})


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(feat_extract_norm="group", do_stable_layer_norm=False, add_adapter=False)
    config.expect(adapter_attn_dim=None)
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-5))
    attention = AttentionSpec(width, heads, heads, config.head_dim(width, heads), causal=False, unmasked=True)
    feed_forward = FeedForwardSpec(
        width, config.integer("intermediate_size"), config.activation("hidden_act", "gelu")
    )
    convolutions = _convolutions(config)
    sound = WaveformSpec(
        width,
        convolutions,
        config.activation("feat_extract_activation", "gelu"),
        norm=NormSpec(convolutions[-1].size, norm.eps),
        final_norm=norm,
        position_kernel=config.integer("num_conv_pos_embeddings", 128),
        position_groups=config.integer("num_conv_pos_embedding_groups", 16),
        bias=config.flag("conv_bias", False),
    )
    block = BlockSpec(attention, feed_forward, norm, NormPlacement.POST)
    stack = SignalStackSpec(sound, (block,), config.count("num_hidden_layers"))
    head = HeadSpec(HeadKind.CTC, tied=False, bias=True, labels=config.integer("vocab_size"))
    return EncoderSpec(encoder=stack, head=head)


def _convolutions(config: Config) -> tuple[ConvolutionSpec, ...]:
    """The convolutions over the waveform, in order."""
    lists = [config.integers(name) for name in ("conv_dim", "conv_kernel", "conv_stride")]
    counts = [len(numbers) for numbers in lists]
    if min(counts) < 1 or len({*counts}) > 1:
        raise CheckpointError(
            f"{config.path}: conv_dim, conv_kernel and conv_stride have {counts} numbers, expected one each "
            "for every convolution"
        )
    return tuple(ConvolutionSpec(*numbers) for numbers in zip(*lists, strict=True))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    embedding, layer = spec.encoder.embedding, "encoder.layers.{i}"
    assert isinstance(embedding, WaveformSpec)
    rules: Rules = {
        f"encoder.embedding.convolutions.{number}.*": f"feature_extractor.conv_layers.{number}.conv.*"
        for number in range(len(embedding.convolutions))
    }
    rules |= {
        "encoder.embedding.channel_norm.*": "feature_extractor.conv_layers.0.layer_norm.*",
        "encoder.embedding.norm.*": "feature_projection.layer_norm.*",
        "encoder.embedding.project.*": "feature_projection.projection.*",
        "encoder.embedding.position.weight": Take(CONVOLUTION + DIRECTION, norms=CONVOLUTION + NORMS),
        "encoder.embedding.position.bias": f"{CONVOLUTION}.bias",
        "encoder.embedding.final_norm.*": "encoder.layer_norm.*",
        **{f"{layer}.attention.{part}.*": f"{layer}.attention.{part}_proj.*" for part in "qkv"},
        f"{layer}.attention.o.*": f"{layer}.attention.out_proj.*",
        f"{layer}.attention_norm.*": f"{layer}.layer_norm.*",
        f"{layer}.feed_forward.up.*": f"{layer}.feed_forward.intermediate_dense.*",
        f"{layer}.feed_forward.down.*": f"{layer}.feed_forward.output_dense.*",
        f"{layer}.feed_forward_norm.*": f"{layer}.final_layer_norm.*",
        "head.*": "lm_head.*",
    }
    return Table(rules, NAMING, drop=("masked_spec_embed",))
