"""wav2vec 2.0 with a Conformer (Wang et al. 2020), whose positions are relative or rotary."""

from dataclasses import replace

import numpy as np

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import _length_adapter, _sound_heads, wav2vec2
from txexport.families._config import Config, TensorNames, shortened
from txexport.families._conformer import Attention, block_rules, distance_vectors
from txexport.families._rope import plain_frequencies
from txexport.spec import (
    AttentionSpec,
    BatchNormSpec,
    BlockSpec,
    ConvolutionModuleSpec,
    EncoderSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    RotarySpec,
    RotatedInputAttentionSpec,
    SignalStackSpec,
    TransformerXLAttentionSpec,
)

TASKS = _sound_heads.tasks("Wav2Vec2Conformer")
REFUSED = {
    "Wav2Vec2ConformerModel": wav2vec2.WITHOUT_HEAD,
    "Wav2Vec2ConformerForPreTraining": wav2vec2.PRETRAINED,
}

NAMING = Naming("wav2vec2_conformer.")
EPSILON = 1e-5  # of the norms of layers, fixed in the original
UNREAD = "encoder.pos_conv_embed.*"  # it has no part in the original's forward
FREQUENCIES = "encoder.embed_positions.inv_freq"
COUNTED = "encoder.layers.*.conv_module.batch_norm.num_batches_tracked"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    sound = replace(wav2vec2.embedding(config), position_kernel=None, final_norm=None)
    width, activation = sound.hidden_size, config.activation("hidden_act", "gelu")
    attention, norm = _attention(config, width, sound.masked, names), NormSpec(width, EPSILON)
    convolution = ConvolutionModuleSpec(
        width,
        config.integer("conv_depthwise_kernel_size", 31),
        activation,
        batch_norm=BatchNormSpec(width, EPSILON),
        masked=False,
    )
    feed_forward = FeedForwardSpec(width, config.integer("intermediate_size"), activation)
    block = BlockSpec(attention, feed_forward, norm, NormPlacement.PRE, convolution=convolution)
    stack = SignalStackSpec(
        sound,
        (block,),
        config.count("num_hidden_layers"),
        final_norm=NormSpec(width, config.number("layer_norm_eps", 1e-5)),
        relative=distance_vectors(attention),
        length_adapter=_length_adapter.of_waveforms(config, width),
    )
    return _sound_heads.model(config, task, stack)


def _attention(config: Config, width: int, masked: bool, names: TensorNames) -> Attention:
    """Attention with sinusoids of distances, over rotated vectors, or without positions."""
    heads = config.integer("num_attention_heads")
    head_dim = config.head_dim(width, heads)
    kind = config.values.get("position_embeddings_type", "relative")
    if kind == "relative":
        return TransformerXLAttentionSpec(width, heads, head_dim, segmented=False, bias=True)
    if kind == "rotary":
        return RotatedInputAttentionSpec(width, heads, RotarySpec(_frequencies(config, head_dim, names)))
    if kind is None:
        return AttentionSpec(width, heads, heads, head_dim, causal=False, unmasked=not masked)
    raise UnsupportedError(
        f"{config.path}: position_embeddings_type {shortened(kind)} is not supported; expected 'relative', "
        "'rotary' or null"
    )


def _frequencies(config: Config, head_dim: int, names: TensorNames) -> tuple[float, ...]:
    """The frequencies of the rotation, which checkpoints store, as the original reads them."""
    if FREQUENCIES not in names:
        return plain_frequencies(float(config.integer("rotary_embedding_base", 10000)), head_dim)
    numbers = names.read(FREQUENCIES)
    if numbers.shape != (head_dim // 2,) or not np.isfinite(numbers).all():
        raise CheckpointError(
            f"{config.path.parent}: {FREQUENCIES} has shape {numbers.shape}, expected ({head_dim // 2},), "
            "and finite numbers"
        )
    return tuple(numbers.tolist())


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    ours, theirs = (
        "encoder.layers.{i}.convolution.depthwise_norm",
        "encoder.layers.{i}.conv_module.batch_norm",
    )
    sound = {
        name: rule
        for name, rule in wav2vec2.rules(spec).items()
        if name.startswith(("encoder.embedding.", "encoder.final_norm."))
    }
    rules: Rules = sound | {
        **block_rules(spec.encoder.blocks[0].attention),
        f"{ours}.mean": f"{theirs}.running_mean",
        f"{ours}.variance": f"{theirs}.running_var",
        f"{ours}.*": f"{theirs}.*",
        **_sound_heads.rules(spec),
        **_length_adapter.rules(spec),
    }
    return Table(rules, NAMING, drop=(*_sound_heads.UNUSED, UNREAD, COUNTED, FREQUENCIES))
