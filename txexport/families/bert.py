"""BERT (Devlin et al. 2019): post-norm encoder, learned positions, segments."""

from collections.abc import Set

from txexport.families._config import Config
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    ModelSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    StackSpec,
)
from txexport.weights import Naming, Rules, Table, Take

TASKS = {
    "feature-extraction": ("BertModel", "BertForPreTraining"),
    "fill-mask": ("BertForMaskedLM",),
}

NAMING = Naming("bert.", {".gamma": ".weight", ".beta": ".bias"})

LAYER, SOURCE = "encoder.layers.{i}", "encoder.layer.{i}"


def spec(config: Config, task: str, names: Set[str]) -> ModelSpec:
    """The architecture that config.json describes."""
    config.expect(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-12))
    activation = config.activation("hidden_act", "gelu")
    embedding = EmbeddingSpec(
        vocab_size=config.integer("vocab_size"),
        hidden_size=width,
        position=PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings")),
        segments=config.integer("type_vocab_size", 2),
        norm=norm,
    )
    block = BlockSpec(
        AttentionSpec(width, heads, heads, config.head_dim(width, heads), causal=False),
        FeedForwardSpec(width, config.integer("intermediate_size"), activation),
        norm,
        NormPlacement.POST,
    )
    stack = StackSpec(embedding, block, config.integer("num_hidden_layers"))
    if task == "fill-mask":
        tied = config.flag("tie_word_embeddings", True)
        head = HeadSpec(HeadKind.MASKED_LM, tied=tied, bias=True, activation=activation, norm=norm)
        return ModelSpec(encoder=stack, head=head)
    return ModelSpec(encoder=stack, pooler="pooler.dense.weight" in names)


def table(spec: ModelSpec) -> Table:
    """Where transformers keeps each parameter."""
    masked, tied = spec.head.kind == HeadKind.MASKED_LM, spec.head.tied
    decoder = "cls.predictions.decoder"
    copies = (f"{decoder}.weight",) if masked and tied else ()
    bias = Take(f"{decoder}.bias", fallback="cls.predictions.bias")
    if tied:
        bias = Take("cls.predictions.bias", also=(f"{decoder}.bias",))
    rules: Rules = {
        "encoder.embedding.word.weight": Take("embeddings.word_embeddings.weight", also=copies),
        "encoder.embedding.position.*": "embeddings.position_embeddings.*",
        "encoder.embedding.segment.*": "embeddings.token_type_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        f"{LAYER}.attention.q.*": f"{SOURCE}.attention.self.query.*",
        f"{LAYER}.attention.k.*": f"{SOURCE}.attention.self.key.*",
        f"{LAYER}.attention.v.*": f"{SOURCE}.attention.self.value.*",
        f"{LAYER}.attention.o.*": f"{SOURCE}.attention.output.dense.*",
        f"{LAYER}.attention_norm.*": f"{SOURCE}.attention.output.LayerNorm.*",
        f"{LAYER}.feed_forward.up.*": f"{SOURCE}.intermediate.dense.*",
        f"{LAYER}.feed_forward.down.*": f"{SOURCE}.output.dense.*",
        f"{LAYER}.feed_forward_norm.*": f"{SOURCE}.output.LayerNorm.*",
        "pooler.dense.*": "pooler.dense.*",
        "head.dense.*": "cls.predictions.transform.dense.*",
        "head.norm.*": "cls.predictions.transform.LayerNorm.*",
        "head.weight": f"{decoder}.weight",
        "head.bias": bias,
    }
    other_heads = (
        ("pooler.*", "cls.seq_relationship.*") if masked else ("cls.*", "classifier.*", "qa_outputs.*")
    )
    return Table(rules, NAMING, drop=("embeddings.position_ids", *other_heads))
