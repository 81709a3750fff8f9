"""Megatron-LM's BERT (Shoeybi et al. 2019): pre-norm BERT without a norm of the embedding."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {
    "feature-extraction": ("MegatronBertModel",),
    "fill-mask": ("MegatronBertForMaskedLM",),
    "pretraining": ("MegatronBertForPreTraining",),
    "next-sentence-prediction": ("MegatronBertForNextSentencePrediction",),
    "text-classification": ("MegatronBertForSequenceClassification",),
    "token-classification": ("MegatronBertForTokenClassification",),
    "question-answering": ("MegatronBertForQuestionAnswering",),
    "multiple-choice": ("MegatronBertForMultipleChoice",),
}

NAMING = bert.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    return bert.pre_norm(bert.spec(config, task, names), embedding=False)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {
        f"{bert.LAYER}.attention_norm.*": f"{bert.SOURCE}.attention.ln.*",
        f"{bert.LAYER}.feed_forward_norm.*": f"{bert.SOURCE}.ln.*",
        "encoder.final_norm.*": "encoder.ln.*",
    }
    base = bert.table(spec)
    return replace(base, rules=base.rules | rules)
