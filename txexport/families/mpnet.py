"""MPNet (Song et al. 2020): RoBERTa without token types, with one relative bias shared by all layers."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import Activation, EncoderSpec, PositionKind, PositionSpec, RelativeSpec

TASKS = {
    "feature-extraction": ("MPNetModel",),
    "fill-mask": ("MPNetForMaskedLM",),
    "text-classification": ("MPNetForSequenceClassification",),
    "token-classification": ("MPNetForTokenClassification",),
    "question-answering": ("MPNetForQuestionAnswering",),
    "multiple-choice": ("MPNetForMultipleChoice",),
}

NAMING = Naming("mpnet.", {".gamma": ".weight", ".beta": ".bias"})
PADDING, BUCKETS, REACH = 1, 32, 128  # fixed in the original, whatever config.json says


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(relative_attention_num_buckets=BUCKETS)
    size = config.integer("max_position_embeddings")
    position = PositionSpec(PositionKind.LEARNED, size, offset=PADDING, pad_token_id=PADDING)
    relative = RelativeSpec(BUCKETS, REACH, bidirectional=True)
    return bert.encoder_spec(
        config, task, names, position, Activation.GELU, type_vocab_size=0, relative=relative
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, source = bert.LAYER, bert.SOURCE
    rules: Rules = bert.stack_rules() | {
        f"{layer}.attention.q.*": f"{source}.attention.attn.q.*",
        f"{layer}.attention.k.*": f"{source}.attention.attn.k.*",
        f"{layer}.attention.v.*": f"{source}.attention.attn.v.*",
        f"{layer}.attention.o.*": f"{source}.attention.attn.o.*",
        f"{layer}.attention_norm.*": f"{source}.attention.LayerNorm.*",
        "encoder.relative.*": "encoder.relative_attention_bias.*",
    }
    masked_lm: Rules = {"head.dense.*": "lm_head.dense.*", "head.norm.*": "lm_head.layer_norm.*"}
    word_embedding = "embeddings.word_embeddings.weight"
    rules |= bert.head_rules(
        spec,
        sequence={"head.dense.*": "classifier.dense.*", "head.*": "classifier.out_proj.*"},
        masked_lm=masked_lm | bert.masked_lm_rules(spec, word_embedding, "lm_head.decoder", "lm_head.bias"),
    )
    drop = ("embeddings.position_ids", "pooler.*", "lm_head.*", "classifier.*", "qa_outputs.*")
    return Table(rules, NAMING, drop)
