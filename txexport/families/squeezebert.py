"""SqueezeBERT (Iandola et al. 2020): BERT with projections in groups, stored as convolutions of kernel 1."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionSpec,
    EncoderSpec,
    FeedForwardSpec,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("SqueezeBertModel",),
    "fill-mask": ("SqueezeBertForMaskedLM",),
    "text-classification": ("SqueezeBertForSequenceClassification",),
    "token-classification": ("SqueezeBertForTokenClassification",),
    "question-answering": ("SqueezeBertForQuestionAnswering",),
    "multiple-choice": ("SqueezeBertForMultipleChoice",),
}

NAMING = Naming("transformer.", {".gamma": ".weight", ".beta": ".bias"})
RETURNS_SCORES = True  # the library's output_attentions are scores before the softmax
EPS = 1e-12  # of the layers' norms, fixed in the original; layer_norm_eps is of the embedding and the head


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(embedding_size=config.integer("hidden_size"))
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    activation = config.activation("hidden_act", "gelu")
    plain = bert.encoder_spec(config, task, names, position, activation)
    stack = plain.encoder
    assert isinstance(stack, TextStackSpec)
    block = stack.blocks[0]
    assert isinstance(block.attention, AttentionSpec)
    assert isinstance(block.feed_forward, FeedForwardSpec)
    attention = replace(
        block.attention,
        q_groups=config.integer("q_groups", 4),
        k_groups=config.integer("k_groups", 4),
        v_groups=config.integer("v_groups", 4),
        o_groups=config.integer("post_attention_groups", 1),
    )
    network = replace(
        block.feed_forward,
        up_groups=config.integer("intermediate_groups", 4),
        down_groups=config.integer("output_groups", 4),
    )
    norm = NormSpec(block.norm.size, EPS)
    block = replace(block, attention=attention, feed_forward=network, norm=norm)
    return replace(plain, encoder=replace(stack, blocks=(block,)))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer = "encoder.layers.{i}"  # in the checkpoint too
    block = spec.encoder.blocks[0]
    attention, network = block.attention, block.feed_forward
    assert isinstance(attention, AttentionSpec)
    assert isinstance(network, FeedForwardSpec)
    word_embedding, decoder = "embeddings.word_embeddings.weight", "cls.predictions.decoder"
    masked_lm: Rules = {
        "head.dense.*": "cls.predictions.transform.dense.*",
        "head.norm.*": "cls.predictions.transform.LayerNorm.*",
        **bert.masked_lm_rules(spec, word_embedding, decoder, "cls.predictions.bias"),
    }
    rules: Rules = {
        "encoder.embedding.word.weight": word_embedding,
        "encoder.embedding.position.*": "embeddings.position_embeddings.*",
        "encoder.embedding.segment.*": "embeddings.token_type_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        **_convolution(f"{layer}.attention.q", f"{layer}.attention.query", attention.q_groups),
        **_convolution(f"{layer}.attention.k", f"{layer}.attention.key", attention.k_groups),
        **_convolution(f"{layer}.attention.v", f"{layer}.attention.value", attention.v_groups),
        **_convolution(f"{layer}.attention.o", f"{layer}.post_attention.conv1d", attention.o_groups),
        f"{layer}.attention_norm.*": f"{layer}.post_attention.layernorm.*",
        **_convolution(f"{layer}.feed_forward.up", f"{layer}.intermediate.conv1d", network.up_groups),
        **_convolution(f"{layer}.feed_forward.down", f"{layer}.output.conv1d", network.down_groups),
        f"{layer}.feed_forward_norm.*": f"{layer}.output.layernorm.*",
        "pooler.dense.*": "pooler.dense.*",
        **bert.head_rules(spec, sequence=bert.POOLED, masked_lm=masked_lm),
    }
    drop = ("embeddings.position_ids", "pooler.*", "cls.*", "classifier.*", "qa_outputs.*")
    return Table(rules, NAMING, drop)


def _convolution(name: str, source: str, groups: int) -> Rules:
    """The rules of a projection that is stored as a convolution of kernel 1, (out, in / groups, 1)."""
    rules: Rules = {}
    for part in range(groups):
        place = name if groups == 1 else f"{name}.groups.{part}"
        rules[f"{place}.weight"] = Take(f"{source}.weight", part=part, parts=groups, trailing_axis=True)
        rules[f"{place}.bias"] = Take(f"{source}.bias", part=part, parts=groups)
    return rules
