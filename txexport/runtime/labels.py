"""From scores to named labels, as a checkpoint's config.json asks; N rows, K labels."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from txexport.errors import BundleError, InputError


class Label(TypedDict):
    """A label and how likely it is."""

    label: str
    score: float


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def scores(config: Mapping[str, Any], logits: np.ndarray) -> np.ndarray:
    """What logits (N,K) mean by `problem_type`: probabilities of labels that exclude each other or that do
    not, or the numbers themselves. Without it, one label stands alone and several exclude each other.
    """
    kind = config.get("problem_type")
    if kind == "regression":
        return logits
    if kind == "multi_label_classification" or logits.shape[-1] == 1:
        return np.exp(-np.logaddexp(0, -logits))  # the sigmoid, where e to the power overflows too
    return softmax(logits)


def names(config: Mapping[str, Any], count: int) -> list[str]:
    """The names of `count` labels by id2label, or LABEL_0 and so on. Raises BundleError."""
    given = config.get("id2label") or {}
    if not isinstance(given, dict):
        raise BundleError(f"config.json: id2label is a {type(given).__name__}, expected an object")
    return [str(given.get(str(i), f"LABEL_{i}")) for i in range(count)]


def labelled(config: Mapping[str, Any], logits: np.ndarray, top_k: int | None) -> list[list[Label]]:
    """The labels of each row of logits (N,K), likeliest first: all, or the first `top_k`."""
    if top_k is not None:
        check_count("top_k", top_k)
    labels = names(config, logits.shape[1])
    return [ranked(labels, row, top_k) for row in scores(config, logits)]


def ranked(labels: Sequence[str], row: np.ndarray, top_k: int | None) -> list[Label]:
    """The `top_k` likeliest of `labels`, or all, likeliest first; `row` (K) are their scores."""
    order = np.argsort(-row, kind="stable")[:top_k]
    return [{"label": labels[i], "score": float(row[i])} for i in order.tolist()]


def check_count(name: str, value: object) -> None:
    """Raise InputError unless `value` is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} is {value!r}, expected a whole number of at least 1")
