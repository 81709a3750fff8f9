"""Outputs of every layer for one row without its padding: hidden states and attention weights.

Weights keep every key that the graph had; padding and unfilled slots have weight 0.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import ATTENTIONS, CROSS_ATTENTIONS, HIDDEN_STATES


def of_row(name: str, found: np.ndarray, real: np.ndarray) -> np.ndarray:
    """A row's output at the tokens where `real` (S) is true: (S,W) or weights (N,S,T); others unchanged."""
    kind = kind_of(name)
    if kind == HIDDEN_STATES:
        return found[real]
    return found[:, real] if kind == ATTENTIONS else found


def without_padding(
    by_token: Collection[str],
    outputs: Mapping[str, np.ndarray],
    row: int,
    real: np.ndarray,
    within: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """One row of a batch's outputs, without padding in those `by_token` and in those of layers.

    `real` (S) is true for tokens; `within` (S') is so in layers with another number of vectors.
    """
    inner = real if within is None else within
    return {
        name: array[row][real] if name in by_token else of_row(name, array[row], inner)
        for name, array in outputs.items()
    }


def among(name: str, truth: np.ndarray, real: np.ndarray) -> np.ndarray:
    """The output of a row that ran without padding, with zeros at padding: weights (N,s,s) -> (N,s,S)."""
    return _spread(truth, np.flatnonzero(real), len(real)) if kind_of(name) == ATTENTIONS else truth


def of_step(
    name: str, expected: Mapping[str, np.ndarray], done: int, found: np.ndarray, filled: np.ndarray
) -> np.ndarray:
    """The part of a row's output in one pass that one step should give, after `done` tokens.

    `filled` are the slots of the tokens read. Raises AssertionError if the reference lacks the output.
    """
    if name not in expected:
        raise AssertionError(f"the reference gives no {name}")
    truth = expected[name]
    if kind_of(name) == HIDDEN_STATES:
        return truth[done : done + len(found)]
    weights = truth[:, done : done + found.shape[1]]
    if not name.startswith(CROSS_ATTENTIONS):
        return _spread(weights[..., : len(filled)], filled, found.shape[2])
    return _spread(weights, np.arange(weights.shape[2]), found.shape[2])


def read(name: str, found: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """A step's output of a row without empty slots."""
    self_attention = kind_of(name) == ATTENTIONS and not name.startswith(CROSS_ATTENTIONS)
    return found[..., filled] if self_attention else found


def joined(name: str, steps: Sequence[np.ndarray]) -> np.ndarray:
    """The outputs of successive steps of a row, as of one pass."""
    if kind_of(name) == HIDDEN_STATES:
        return np.concatenate(steps)
    length = steps[-1].shape[2]
    return np.concatenate([_spread(one, np.arange(one.shape[2]), length) for one in steps], axis=1)


def _spread(weights: np.ndarray, keys: np.ndarray, length: int) -> np.ndarray:
    """Weights (N,S,T) with keys at the positions `keys` among `length`, and 0 elsewhere.

    Unchanged if they do not fit, so that the shapes differ.
    """
    if len(keys) != weights.shape[2] or keys.max(initial=-1) >= length:
        return weights
    wide = np.zeros((*weights.shape[:2], length), weights.dtype)
    wide[..., keys] = weights
    return wide
