"""XLM-RoBERTa (Conneau et al. 2020): multilingual RoBERTa, also with the names of Jina's code."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table
from txexport.families import jina_embeddings_v3, roberta
from txexport.families._config import Config, TensorNames

TASKS = {
    "feature-extraction": ("XLMRobertaModel",),
    "fill-mask": ("XLMRobertaForMaskedLM",),
    "text-classification": ("XLMRobertaForSequenceClassification",),
    "token-classification": ("XLMRobertaForTokenClassification",),
    "question-answering": ("XLMRobertaForQuestionAnswering",),
    "multiple-choice": ("XLMRobertaForMultipleChoice",),
}

NAMING = roberta.NAMING
LIBRARY_NAMES = {
    "emb_ln.": ("embeddings.LayerNorm.",),
    "encoder.layers.": ("encoder.layer.",),
    "mixer.Wqkv.": ("attention.self.query.", "attention.self.key.", "attention.self.value."),
    "mixer.out_proj.": ("attention.output.dense.",),
    "norm1.": ("attention.output.LayerNorm.",),
    "mlp.fc1.": ("intermediate.dense.",),
    "mlp.fc2.": ("output.dense.",),
    "norm2.": ("output.LayerNorm.",),
}
spec = roberta.spec
table = roberta.table


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers, or of Jina's code."""
    base = table(spec(config, task, names))
    if any(name.endswith(".mixer.Wqkv.weight") for name in names):
        return replace(base, rules=jina_embeddings_v3.named(base.rules))
    return base
