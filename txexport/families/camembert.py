"""CamemBERT (Martin et al. 2020): RoBERTa in French."""

from txexport.families import roberta

TASKS = {
    "feature-extraction": ("CamembertModel",),
    "fill-mask": ("CamembertForMaskedLM",),
    "text-classification": ("CamembertForSequenceClassification",),
    "token-classification": ("CamembertForTokenClassification",),
    "question-answering": ("CamembertForQuestionAnswering",),
    "multiple-choice": ("CamembertForMultipleChoice",),
}

NAMING = roberta.NAMING
spec = roberta.spec
table = roberta.table
