"""XLM-RoBERTa (Conneau et al. 2020): RoBERTa in a hundred languages."""

from txexport.families import roberta

TASKS = {
    "feature-extraction": ("XLMRobertaModel",),
    "fill-mask": ("XLMRobertaForMaskedLM",),
    "text-classification": ("XLMRobertaForSequenceClassification",),
    "token-classification": ("XLMRobertaForTokenClassification",),
    "question-answering": ("XLMRobertaForQuestionAnswering",),
    "multiple-choice": ("XLMRobertaForMultipleChoice",),
}

NAMING = roberta.NAMING
spec = roberta.spec
table = roberta.table
