"""Data2Vec of texts (Baevski et al. 2022): RoBERTa, trained another way."""

from dataclasses import replace

from txexport.families import roberta

TASKS = {
    "feature-extraction": ("Data2VecTextModel",),
    "fill-mask": ("Data2VecTextForMaskedLM",),
    "text-classification": ("Data2VecTextForSequenceClassification",),
    "token-classification": ("Data2VecTextForTokenClassification",),
    "question-answering": ("Data2VecTextForQuestionAnswering",),
    "multiple-choice": ("Data2VecTextForMultipleChoice",),
}

NAMING = replace(roberta.NAMING, prefix="data2vec_text.")
spec = roberta.spec
table = roberta.table
