"""Named labels from logits, by a checkpoint's config.json; N rows, K labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from txexport.errors import BundleError
from txexport.support.arguments import check_count


class Label(TypedDict):
    """A label and its score."""

    label: str
    score: float


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """The probability of each label by itself."""
    return np.exp(-np.logaddexp(0, -logits))  # exp(-logits) could overflow


def identity(logits: np.ndarray) -> np.ndarray:
    """The logits unchanged."""
    return logits


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Identity": identity,
    "Sigmoid": sigmoid,
    "Softmax": softmax,
    "Tanh": np.tanh,
}


def cross_encoder(config: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray] | None:
    """The activation of a sentence-transformers cross-encoder; None where the config names none.

    Raises BundleError for a function that is not in ACTIVATIONS.
    """
    table = config.get("sentence_transformers")
    if isinstance(table, dict) and "activation_fn" in table:
        name = table["activation_fn"]
    else:
        name = config.get("sbert_ce_default_activation_function")
    if name is None:
        return None
    kind = str(name).rsplit(".", 1)[-1]
    if not str(name).startswith("torch.nn.") or kind not in ACTIVATIONS:
        raise BundleError(
            f"activation '{name}' of a cross-encoder is not supported; "
            f"expected torch.nn's {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[kind]


def scores(config: Mapping[str, Any], logits: np.ndarray) -> np.ndarray:
    """Scores (N,K) of logits (N,K), by the activation of a cross-encoder or by `problem_type`.

    A softmax for one label of several, a sigmoid for multi-label classification, the logits for regression.
    Without a `problem_type`, one label gets a sigmoid and several get a softmax.
    """
    activation = cross_encoder(config)
    if activation is not None:
        return activation(logits)
    kind = config.get("problem_type")
    if kind == "regression":
        return logits
    if kind == "multi_label_classification" or logits.shape[-1] == 1:
        return sigmoid(logits)
    return softmax(logits)


def names(config: Mapping[str, Any], count: int) -> list[str]:
    """The names of `count` labels: id2label if it has as many, or LABEL_0 and so on. Raises BundleError."""
    id2label = config.get("id2label") or {}
    if not isinstance(id2label, dict):
        raise BundleError(f"config.json: id2label is a {type(id2label).__name__}, expected an object")
    id2label = id2label if len(id2label) == count else {}
    return [str(id2label.get(str(i), f"LABEL_{i}")) for i in range(count)]


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
