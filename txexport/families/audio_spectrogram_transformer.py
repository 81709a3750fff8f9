"""AST (Gong et al. 2021): DeiT over overlapping patches of a spectrogram."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import vit
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    Pick,
    SignalStackSpec,
    SpectrogramSpec,
)

TASKS = {"audio-classification": ("ASTForAudioClassification",)}

NAMING = Naming("audio_spectrogram_transformer.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm, head_dim = NormSpec(width, config.number("layer_norm_eps", 1e-12)), config.head_dim(width, heads)
    bias = config.flag("qkv_bias", True)
    attention = AttentionSpec(width, heads, heads, head_dim, causal=False, bias=bias, unmasked=True)
    activation = config.activation("hidden_act", "gelu")
    feed_forward = FeedForwardSpec(width, config.integer("intermediate_size"), activation)
    sound = SpectrogramSpec(
        width,
        num_mel_bins=config.integer("num_mel_bins", 128),
        max_length=config.integer("max_length", 1024),
        patch_size=vit.patch_size(config),
        frequency_stride=config.integer("frequency_stride", 10),
        time_stride=config.integer("time_stride", 10),
    )
    block = BlockSpec(attention, feed_forward, norm, NormPlacement.PRE)
    stack = SignalStackSpec(sound, (block,), config.count("num_hidden_layers"), final_norm=norm)
    pick, labels = Pick.FIRST_TWO, config.labels()
    head = HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, labels=labels, pick=pick, norm=norm)
    return EncoderSpec(encoder=stack, head=head)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = vit.stack_rules() | {
        "encoder.embedding.tokens.1.weight": Take("embeddings.distillation_token", leading_axis=True),
        "head.norm.*": "classifier.layernorm.*",
        "head.*": "classifier.dense.*",
    }
    return Table(rules, NAMING)
