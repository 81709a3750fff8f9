"""Pre-norm RoBERTa (Ott et al. 2019, fairseq's encoder_normalize_before)."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert, roberta
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {
    "feature-extraction": ("RobertaPreLayerNormModel",),
    "fill-mask": ("RobertaPreLayerNormForMaskedLM",),
    "text-classification": ("RobertaPreLayerNormForSequenceClassification",),
    "token-classification": ("RobertaPreLayerNormForTokenClassification",),
    "question-answering": ("RobertaPreLayerNormForQuestionAnswering",),
    "multiple-choice": ("RobertaPreLayerNormForMultipleChoice",),
}

NAMING = Naming("roberta_prelayernorm.", roberta.NAMING.rename)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    return bert.pre_norm(roberta.spec(config, task, names), embedding=True)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {
        f"{bert.LAYER}.attention_norm.*": f"{bert.SOURCE}.attention.LayerNorm.*",
        f"{bert.LAYER}.feed_forward_norm.*": f"{bert.SOURCE}.intermediate.LayerNorm.*",
        "encoder.final_norm.*": "LayerNorm.*",
    }
    base = roberta.table(spec)
    return replace(base, rules=base.rules | rules, naming=NAMING)
