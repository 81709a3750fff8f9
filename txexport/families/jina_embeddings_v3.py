"""Jina embeddings v3 (Sturua et al. 2024): XLM-RoBERTa with RoPE instead of learned positions."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert, nomic_bert, roberta
from txexport.families._config import Config, TensorNames
from txexport.families._rope import longest, rotary
from txexport.spec import Activation, EncoderSpec, PositionKind, PositionSpec, TextStackSpec

TASKS = {
    "feature-extraction": ("JinaEmbeddingsV3Model",),
    "fill-mask": ("JinaEmbeddingsV3ForMaskedLM",),
    "text-classification": ("JinaEmbeddingsV3ForSequenceClassification",),
    "token-classification": ("JinaEmbeddingsV3ForTokenClassification",),
    "question-answering": ("JinaEmbeddingsV3ForQuestionAnswering",),
}

# The original's code renames the matrices that it adapts; without a task, their values are unadapted.
ADAPTED = ".parametrizations.weight.original"
NAMING = Naming("roberta.", {ADAPTED: ".weight"})
LIBRARY_NAMES = {ADAPTED: (".weight",)}
ADAPTERS = tuple(f"*.parametrizations.weight.0.lora_{part}" for part in "AB")
PUBLISHED_WITH_CODE = True


def published(config: Config) -> Config:
    """The values of Jina's own code under XLM-RoBERTa's model_type, by the library's names.

    With learned positions, it computes what XLM-RoBERTa does.
    """
    defaulted = config.with_defaults(layer_norm_eps=1e-5, type_vocab_size=1).values
    values = {key: value for key, value in defaulted.items() if key not in ("auto_map", "rotary_emb_base")}
    # Its default differs between releases of that code
    if config.text("position_embedding_type") == "absolute":
        return Config(values, config.path, config.room)
    config.expect(position_embedding_type="rotary")
    del values["position_embedding_type"]
    rope = {"rope_type": "default", "rope_theta": config.number("rotary_emb_base", 10_000.0)}
    names = [
        name.replace("XLMRobertaLoRA", "XLMRobertaModel").replace("XLMRoberta", "JinaEmbeddingsV3")
        for name in config.strings("architectures")
    ]
    values |= {"model_type": "jina_embeddings_v3", "architectures": names, "rope_parameters": rope}
    return Config(values, config.path, config.room)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(
        rope_theta=20_000.0, max_position_embeddings=8194, type_vocab_size=1, layer_norm_eps=1e-5
    )
    config.expect(head_dim=None)
    position = PositionSpec(PositionKind.NONE, longest(config))
    base = bert.encoder_spec(config, task, names, position, Activation.GELU)
    stack = base.encoder
    assert isinstance(stack, TextStackSpec)
    (block,) = stack.blocks
    attention = replace(block.dense, rotary=rotary(config, block.dense.head_dim))
    return replace(base, encoder=replace(stack, blocks=(replace(block, attention=attention),)))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    base = roberta.table(spec)
    drop = (*base.drop, *ADAPTERS, "linear.*")  # the last one is ColBERT's
    return replace(base, rules=named(base.rules), naming=NAMING, drop=drop)


def named(rules: Rules) -> Rules:
    """RoBERTa's rules with the layer names of Jina's code."""
    layer, source = bert.LAYER, "encoder.layers.{i}"
    return rules | {
        "encoder.embedding.norm.*": "emb_ln.*",
        **nomic_bert.fused(f"{layer}.attention", f"{source}.mixer.Wqkv.*"),
        f"{layer}.attention.o.*": f"{source}.mixer.out_proj.*",
        f"{layer}.attention_norm.*": f"{source}.norm1.*",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.norm2.*",
    }
