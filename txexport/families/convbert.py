"""ConvBERT (Jiang et al. 2020): ELECTRA with half the heads of attention replaced by dynamic convolutions.

Convolutions read padding, as in the original: texts of one batch need the same number of tokens.
"""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import bert, electra
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    ConvolvedAttentionSpec,
    EncoderSpec,
    FeedForwardSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("ConvBertModel",),
    "fill-mask": ("ConvBertForMaskedLM",),
    "text-classification": ("ConvBertForSequenceClassification",),
    "token-classification": ("ConvBertForTokenClassification",),
    "question-answering": ("ConvBertForQuestionAnswering",),
    "multiple-choice": ("ConvBertForMultipleChoice",),
}

NAMING = Naming("convbert.", {".gamma": ".weight", ".beta": ".bias"})


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; no projection where embedding_size equals hidden_size."""
    width, size = config.integer("hidden_size"), config.integer("embedding_size", 768)
    activation = config.activation("hidden_act", "gelu")
    plain = bert.encoder_spec(
        config,
        task,
        names,
        PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings")),
        Activation.GELU,
        factored_size=None if size == width else size,
        sequence=_summary_activation(config) if task == "multiple-choice" else activation,
    )
    stack = plain.encoder
    assert isinstance(stack, TextStackSpec)
    block = stack.blocks[0]
    assert isinstance(block.feed_forward, FeedForwardSpec)
    heads = max(1, config.integer("num_attention_heads") // config.integer("head_ratio", 2))
    head_dim = config.head_dim(width, 2 * heads)
    attention = ConvolvedAttentionSpec(width, heads, head_dim, config.integer("conv_kernel_size", 9))
    groups = config.integer("num_groups", 1)
    network = replace(block.feed_forward, up_groups=groups, down_groups=groups)
    block = replace(block, attention=attention, feed_forward=network)
    return replace(plain, encoder=replace(stack, blocks=(block,)))


def _summary_activation(config: Config) -> Activation:
    """The activation of a choice's vector, which must be a projection of its first token's.

    Without these values, transformers takes the last position, even if it is padding.
    """
    config = config.with_defaults(summary_type="last", summary_use_proj=False)
    config.expect(summary_type="first", summary_use_proj=True, summary_proj_to_labels=False)
    return config.activation("summary_activation")


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, source = "encoder.layers.{i}", "encoder.layer.{i}"
    network = spec.encoder.blocks[0].feed_forward
    assert isinstance(network, FeedForwardSpec)
    within, attention = f"{layer}.attention", f"{source}.attention.self"
    span = f"{attention}.key_conv_attn_layer"
    rules: Rules = {
        **bert.stack_rules(),
        "encoder.embedding.project.*": "embeddings_project.*",
        f"{within}.depthwise.weight": f"{span}.depthwise.weight",
        f"{within}.pointwise.weight": Take(f"{span}.pointwise.weight", trailing_axis=True),
        f"{within}.pointwise.bias": Take(f"{span}.bias", trailing_axis=True),
        f"{within}.kernel.*": f"{attention}.conv_kernel_layer.*",
        f"{within}.convolved.*": f"{attention}.conv_out_layer.*",
        **electra.head_rules(spec),
    }
    if network.up_groups > 1:
        rules |= _groups(f"{layer}.feed_forward.up", f"{source}.intermediate.dense", network.up_groups)
        rules |= _groups(f"{layer}.feed_forward.down", f"{source}.output.dense", network.down_groups)
    drop = ("embeddings.position_ids", *electra.HEADS)
    return Table(rules, NAMING, drop)


def _groups(name: str, source: str, groups: int) -> Rules:
    """The rules of a projection in groups, whose matrices are stored (groups, in, out)."""
    rules: Rules = {}
    for part in range(groups):
        place = f"{name}.groups.{part}"
        rules[f"{place}.weight"] = Take(f"{source}.weight", expert=part, experts=groups, transpose=True)
        rules[f"{place}.bias"] = Take(f"{source}.bias", part=part, parts=groups)
    return rules
