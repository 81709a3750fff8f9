"""Jina BERT v2 (Günther et al. 2023): BERT with ALiBi instead of position embeddings, and gated feed-forward.

Published under BERT's model_type with code of its own, which is in no library; `families/__init__.py`
recognises it by the class of its config. Its two forms are told apart by their tensors:
jinaai/jina-bert-implementation, and jinaai/jina-bert-v2-qk-post-norm of the bilingual models (Mohr et al.
2024), which normalises queries and keys and has a second norm after attention's residual.
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
    NormPlacement,
    NormSpec,
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
    config.text("position_embedding_type")  # the default of BERT differs
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
    plain, attention = block.feed_forward, block.dense
    assert isinstance(plain, FeedForwardSpec)
    block = replace(block, feed_forward=replace(plain, activation=NETWORKS[network], gated=True))
    if any(name.endswith(".mlp.up_gated_layer.weight") for name in names):
        norm = NormSpec(attention.head_dim, block.norm.eps)
        attention = replace(attention, head_norm=norm, joint_norm=True)
        block = replace(block, attention=attention, placement=NormPlacement.DOUBLE_POST)
    return replace(base, encoder=replace(stack, blocks=(block,)))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of that code; the gate and up projections have no biases."""
    base, layer, source = bert.table(spec), bert.LAYER, bert.SOURCE
    rules = {name: rule for name, rule in base.rules.items() if ".feed_forward" not in name}
    if spec.encoder.blocks[0].placement == NormPlacement.DOUBLE_POST:
        rules |= _gated(f"{source}.mlp.up_gated_layer", gate=1) | {
            f"{layer}.attention.q_norm.*": f"{source}.attention.self.layer_norm_q.*",
            f"{layer}.attention.k_norm.*": f"{source}.attention.self.layer_norm_k.*",
            f"{layer}.attention_post_norm.*": f"{source}.layer_norm_1.*",
            f"{layer}.feed_forward.down.*": f"{source}.mlp.down_layer.*",
            f"{layer}.feed_forward_norm.*": f"{source}.layer_norm_2.*",
        }
    else:
        rules |= _gated(f"{source}.mlp.gated_layers", gate=0) | {
            f"{layer}.feed_forward.down.*": f"{source}.mlp.wo.*",
            f"{layer}.feed_forward_norm.*": f"{source}.mlp.layernorm.*",
        }
    return replace(base, rules=rules)


def _gated(fused: str, gate: int) -> Rules:
    """The gate and up projections, stored in one tensor; which of them is first differs."""
    result: Rules = {}
    for name, part in (("gate", gate), ("up", 1 - gate)):
        ours = f"{bert.LAYER}.feed_forward.{name}"
        result[f"{ours}.weight"] = Take(f"{fused}.weight", part=part, parts=2)
        result[f"{ours}.bias"] = Take(f"{fused}.bias", computed=zeros)
    return result
