"""What layers give of a row, without its padding: hidden states, and weights of queries for keys.

Weights keep every key that the graph had, of which padding and unfilled slots have 0.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import ATTENTIONS, CROSS_ATTENTIONS, HIDDEN_STATES


def of_row(name: str, found: np.ndarray, real: np.ndarray) -> np.ndarray:
    """A row's output without padding, which `real` (S) tells: (S,W), weights (N,S,T); others as they are."""
    kind = kind_of(name)
    if kind == HIDDEN_STATES:
        return found[real]
    return found[:, real] if kind == ATTENTIONS else found


def among(name: str, truth: np.ndarray, real: np.ndarray) -> np.ndarray:
    """What a row that was read alone gives, where it stands among padding: weights (N,s,s) as (N,s,S)."""
    return _spread(truth, np.flatnonzero(real), len(real)) if kind_of(name) == ATTENTIONS else truth


def of_step(
    name: str, expected: Mapping[str, np.ndarray], done: int, found: np.ndarray, filled: np.ndarray
) -> np.ndarray:
    """What one pass over a row gave of a step's tokens, before which `done` were read, as the step has it.

    `filled` are the slots of the tokens read. Raises AssertionError for an output that was not given.
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
    """What a step gave of a row, without slots of no token."""
    own = kind_of(name) == ATTENTIONS and not name.startswith(CROSS_ATTENTIONS)
    return found[..., filled] if own else found


def joined(name: str, steps: Sequence[np.ndarray]) -> np.ndarray:
    """What steps gave of a row, one after another, as one pass over it gives it."""
    if kind_of(name) == HIDDEN_STATES:
        return np.concatenate(steps)
    length = steps[-1].shape[2]
    return np.concatenate([_spread(one, np.arange(one.shape[2]), length) for one in steps], axis=1)


def _spread(weights: np.ndarray, keys: np.ndarray, length: int) -> np.ndarray:
    """Weights (N,S,T) of the keys that stand at `keys` among `length`, of which the others have 0.

    As they are where there is no room for them, which is another shape than was given.
    """
    if len(keys) != weights.shape[2] or keys.max(initial=-1) >= length:
        return weights
    wide = np.zeros((*weights.shape[:2], length), weights.dtype)
    wide[..., keys] = weights
    return wide
