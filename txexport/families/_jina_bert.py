"""Jina BERT (Günther et al. 2023): BERT with linear biases in place of positions, and gated networks.

Published under BERT's model_type with code of its own (jinaai/jina-bert-implementation), which no library has
taken; `families/__init__.py` knows it by the class of that code's config.
"""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take, zeros
from txexport.errors import UnsupportedError
from txexport.families import bert
from txexport.families._alibi import geometric
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    AlibiSpec,
    EncoderSpec,
    FeedForwardSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("JinaBertModel",),
    "fill-mask": ("JinaBertForMaskedLM",),
    "text-classification": ("JinaBertForSequenceClassification",),
    "token-classification": ("JinaBertForTokenClassification",),
    "question-answering": ("JinaBertForQuestionAnswering",),
}

NAMING = bert.NAMING
PUBLISHED_WITH_CODE = True
NETWORKS = {"geglu": Activation.GELU, "reglu": Activation.RELU}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(position_embedding_type="alibi")
    network = config.text("feed_forward_type")
    if network not in NETWORKS:
        raise UnsupportedError(
            f"{config.path}: feed_forward_type '{network}' is not supported; expected one of "
            f"{', '.join(NETWORKS)}"
        )
    heads = config.integer("num_attention_heads")
    base = bert.encoder_spec(
        config.replaced(position_embedding_type=None),
        task,
        names,
        PositionSpec(PositionKind.NONE, config.integer("max_position_embeddings")),
        config.activation("hidden_act", "gelu"),
        relative=AlibiSpec(geometric(heads, rounded=False)),
    )
    stack = base.encoder
    assert isinstance(stack, TextStackSpec)
    (block,) = stack.blocks
    plain = block.feed_forward
    assert isinstance(plain, FeedForwardSpec)
    gated = replace(block, feed_forward=replace(plain, activation=NETWORKS[network], gated=True))
    return replace(base, encoder=replace(stack, blocks=(gated,)))


def table(spec: EncoderSpec) -> Table:
    """Where that code keeps each parameter; the projections to the gate and up have biases of 0."""
    base, source = bert.table(spec), f"{bert.SOURCE}.mlp"
    fused, none = f"{source}.gated_layers.weight", Take(f"{source}.gated_layers.bias", computed=zeros)
    kept = {name: rule for name, rule in base.rules.items() if ".feed_forward" not in name}
    rules: Rules = kept | {
        f"{bert.LAYER}.feed_forward.gate.weight": Take(fused, part=0, parts=2),
        f"{bert.LAYER}.feed_forward.up.weight": Take(fused, part=1, parts=2),
        f"{bert.LAYER}.feed_forward.gate.bias": none,
        f"{bert.LAYER}.feed_forward.up.bias": none,
        f"{bert.LAYER}.feed_forward.down.*": f"{source}.wo.*",
        f"{bert.LAYER}.feed_forward_norm.*": f"{source}.layernorm.*",
    }
    return replace(base, rules=rules)
