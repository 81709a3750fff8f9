"""XLM-RoBERTa XL and XXL (Goyal et al. 2021): pre-norm, without a norm of the embedding."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import bert, roberta
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {
    "feature-extraction": ("XLMRobertaXLModel",),
    "fill-mask": ("XLMRobertaXLForMaskedLM",),
    "text-classification": ("XLMRobertaXLForSequenceClassification",),
    "token-classification": ("XLMRobertaXLForTokenClassification",),
    "question-answering": ("XLMRobertaXLForQuestionAnswering",),
    "multiple-choice": ("XLMRobertaXLForMultipleChoice",),
}

NAMING = roberta.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(layer_norm_eps=1e-5, type_vocab_size=1)
    return bert.pre_norm(roberta.spec(config, task, names), embedding=False)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {
        f"{bert.LAYER}.attention_norm.*": f"{bert.SOURCE}.attention.self_attn_layer_norm.*",
        f"{bert.LAYER}.feed_forward_norm.*": f"{bert.SOURCE}.LayerNorm.*",
        "encoder.final_norm.*": "encoder.LayerNorm.*",
    }
    base = roberta.table(spec)
    return replace(base, rules=base.rules | rules)
