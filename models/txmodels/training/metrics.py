"""Metrics of a trained model, from scikit-learn where it has them."""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

from sklearn.metrics import accuracy_score, precision_recall_fscore_support


def classification(
    labels: Sequence, predicted: Sequence, positive: Sequence | None = None
) -> dict[str, float]:
    """Accuracy, precision, recall and F1: micro-averaged over `positive` labels, or macro-averaged."""
    average = "macro" if positive is None else "micro"
    precision, recall, f1, _ = precision_recall_fscore_support(
        labels, predicted, labels=positive, average=average, zero_division=0
    )
    accuracy = accuracy_score(labels, predicted)
    return {"accuracy": accuracy, "precision": precision, "recall": recall, "f1": f1}


def exact_match(wanted: Sequence[str], said: Sequence[str]) -> float:
    """The fraction of predicted texts that equal their references."""
    return accuracy_score(list(wanted), list(said))


def token_f1(wanted: str, said: str) -> float:
    """F1 of the words of two answers, without articles and punctuation (Rajpurkar et al. 2016, 6.1)."""
    gold, words = _words(wanted), _words(said)
    shared = sum((Counter(gold) & Counter(words)).values())
    if not gold or not words:
        return float(gold == words)
    return 2 * shared / (len(gold) + len(words))


def _words(text: str) -> list[str]:
    plain = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def word_error_rate(references: Sequence[str], transcripts: Sequence[str]) -> float:
    """Substituted, omitted and inserted words of transcripts per word of their references."""
    return _error_rate([text.split() for text in references], [text.split() for text in transcripts])


def character_error_rate(references: Sequence[str], transcripts: Sequence[str]) -> float:
    """Substituted, omitted and inserted characters of transcripts per character of their references."""
    return _error_rate(references, transcripts)


def _error_rate(references: Sequence[Sequence[str]], transcripts: Sequence[Sequence[str]]) -> float:
    edits = sum(_edits(*pair) for pair in zip(references, transcripts, strict=True))
    return edits / sum(map(len, references))


def _edits(reference: Sequence[str], transcript: Sequence[str]) -> int:
    """The least number of substitutions, omissions and insertions (Levenshtein 1966)."""
    row = list(range(len(transcript) + 1))
    for i, expected in enumerate(reference, start=1):
        diagonal, row[0] = row[0], i
        for j, actual in enumerate(transcript, start=1):
            substituted = diagonal + (expected != actual)
            diagonal, row[j] = row[j], min(substituted, row[j] + 1, row[j - 1] + 1)
    return row[-1]


def perplexity(log_probabilities: Sequence[float]) -> float:
    """exp of the mean negative log-likelihood per token."""
    return math.exp(-sum(log_probabilities) / len(log_probabilities))
