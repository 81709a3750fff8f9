"""wav2vec2-BERT (Seamless Communication 2023): a Conformer over filter banks."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import _length_adapter, _sound_heads, wav2vec2
from txexport.families._config import Config, TensorNames, shortened
from txexport.families._conformer import Attention, block_rules, distance_vectors
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    ConvolutionModuleSpec,
    EncoderSpec,
    FeedForwardSpec,
    FramesSpec,
    NormPlacement,
    NormSpec,
    RelativeKeyAttentionSpec,
    SignalStackSpec,
    TransformerXLAttentionSpec,
)

TASKS = _sound_heads.tasks("Wav2Vec2Bert")

NAMING = Naming("wav2vec2_bert.")
REFUSED = {"Wav2Vec2BertModel": wav2vec2.WITHOUT_HEAD}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    width, eps = config.integer("hidden_size", 1024), config.number("layer_norm_eps", 1e-5)
    size = config.integer("feature_projection_input_dim", 160)
    norm, activation = NormSpec(width, eps), config.activation("hidden_act", "swish")
    kernel = config.integer("conv_depthwise_kernel_size", 31)
    attention = _attention(config, width)
    block = BlockSpec(
        attention,
        FeedForwardSpec(width, config.integer("intermediate_size", 4096), activation),
        norm,
        NormPlacement.PRE,
        convolution=ConvolutionModuleSpec(width, kernel, activation, norm, causal=True),
    )
    stack = SignalStackSpec(
        FramesSpec(width, size, NormSpec(size, eps)),
        (block,),
        config.count("num_hidden_layers", 24),
        relative=distance_vectors(attention),
        length_adapter=_length_adapter.of_frames(config, width),
    )
    return _sound_heads.model(config.with_defaults(classifier_proj_size=768), task, stack)


def _attention(config: Config, width: int) -> Attention:
    """Attention with a vector for each distance, with sinusoids of distances, or without positions."""
    heads = config.integer("num_attention_heads", 16)
    head_dim = config.head_dim(width, heads)
    kind = config.values.get("position_embeddings_type", "relative_key")
    if kind == "relative_key":
        left = config.integer("left_max_position_embeddings", 64)
        right = config.integer("right_max_position_embeddings", 8)
        return RelativeKeyAttentionSpec(width, heads, head_dim, left, right)
    if kind == "relative":
        return TransformerXLAttentionSpec(width, heads, head_dim, segmented=False, bias=True)
    if kind is None:
        return AttentionSpec(width, heads, heads, head_dim, causal=False)
    raise UnsupportedError(
        f"{config.path}: position_embeddings_type {shortened(kind)} is not supported; expected "
        "'relative_key', 'relative' or null"
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    convolution = "encoder.layers.{i}.convolution"
    rules: Rules = {
        "encoder.embedding.norm.*": "feature_projection.layer_norm.*",
        "encoder.embedding.project.*": "feature_projection.projection.*",
        **block_rules(spec.encoder.blocks[0].attention),
        f"{convolution}.depthwise_norm.*": "encoder.layers.{i}.conv_module.depthwise_layer_norm.*",
        **_sound_heads.rules(spec),
        **_length_adapter.rules(spec),
    }
    return Table(rules, NAMING, drop=_sound_heads.UNUSED)
