"""Sampling: filters and the draw. Scores are (R,V) float32; R rows, V tokens.

Filters set the scores of excluded tokens to -inf, but always keep a row's `keep` likeliest tokens.
"""

from collections.abc import Sequence

import numpy as np

from txexport.errors import InputError

TOP_H_TOKENS = 100  # likeliest tokens whose entropy top_h limits


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities of each row, along the last axis."""
    shifted = _shifted(scores)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities of each row."""
    powers = np.exp(_shifted(scores))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


@np.errstate(over="ignore", invalid="ignore")  # scores may be the lowest number, even all of a row
def _shifted(scores: np.ndarray) -> np.ndarray:
    return scores - scores.max(axis=-1, keepdims=True)


def sample(scores: np.ndarray, rngs: Sequence[np.random.Generator]) -> np.ndarray:
    """Draw one token (R) int64 a row by its probability, never one whose score is -inf.

    Takes one number from each row's generator. Raises InputError for a row with no token left or with NaN or
    infinity.
    """
    tokens = np.empty(len(scores), np.int64)
    for i, rng in zip(range(len(scores)), rngs, strict=True):
        draw = rng.random()
        left = np.flatnonzero(scores[i] != -np.inf)
        row = scores[i, left].astype(np.float64)
        if not len(row) or not np.isfinite(row).all():
            what = "a score that is not finite" if len(row) else "no token left to draw"
            raise InputError(f"row {i} has {what}; choose remove_invalid_values=True or fewer restrictions")
        reached = np.exp(row - row.max()).cumsum()
        tokens[i] = left[np.searchsorted(reached, draw * reached[-1], side="right")]
    return tokens


@np.errstate(over="ignore")
def temperature(scores: np.ndarray, value: float) -> np.ndarray:
    """Divide scores by `value`: below 1 likely tokens become likelier, above 1 less likely."""
    return scores / value


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Keep the k likeliest tokens, and all those as likely as the last of them (Fan et al. 2018)."""
    return np.where(scores < _highest(scores, k), -np.inf, scores)


def top_p(scores: np.ndarray, share: float, keep: int) -> np.ndarray:
    """Keep the fewest likeliest tokens that have `share` of the probability (Holtzman et al. 2020)."""
    p = softmax(scores)
    # The tokens below (1 - share) / V sum to less than 1 - share: only the others are sorted.
    floor = np.minimum((1 - share) / scores.shape[1], _highest(p, keep))
    left = np.full_like(scores, -np.inf)
    for i in range(len(scores)):
        likely = np.flatnonzero(p[i] >= floor[i])
        rising = likely[np.argsort(scores[i, likely], kind="stable")]
        below = p[i, p[i] < floor[i]].sum(dtype=np.float64) + p[i, rising].cumsum(dtype=np.float64)
        out = below.astype(scores.dtype) <= 1 - share  # rounded as the probabilities are
        out[-keep:] = False
        left[i, rising[~out]] = scores[i, rising[~out]]
    return left


def min_p(scores: np.ndarray, share: float, keep: int) -> np.ndarray:
    """Keep tokens at least `share` times as likely as the likeliest (Nguyen et al. 2024)."""
    p = softmax(scores)
    return _without(scores, p < share * p.max(axis=1, keepdims=True), keep)


def typical_p(scores: np.ndarray, share: float, keep: int) -> np.ndarray:
    """Keep the fewest tokens nearest to the entropy that have `share` of the probability (Meister 2023)."""
    logs, entropy = _entropy(scores)
    distance = np.abs(-logs - entropy)
    left = scores.copy()
    for i in range(len(scores)):
        possible = np.flatnonzero(scores[i] > -np.inf)
        nearest = possible[np.argsort(distance[i, possible], kind="stable")]
        reached = np.exp(logs[i, nearest]).cumsum(dtype=np.float64).astype(scores.dtype)
        last = max(int((reached < share).sum()), keep - 1)
        left[i, distance[i] > distance[i, nearest[min(last, len(nearest) - 1)]]] = -np.inf
    return left


def epsilon_cutoff(scores: np.ndarray, least: float, keep: int) -> np.ndarray:
    """Keep tokens with at least the probability `least` (Hewitt et al. 2022)."""
    return _without(scores, softmax(scores) < least, keep)


def eta_cutoff(scores: np.ndarray, least: float, keep: int) -> np.ndarray:
    """As `epsilon_cutoff`, with a lower threshold where the entropy is high (Hewitt et al. 2022)."""
    _, entropy = _entropy(scores)
    demanded = np.minimum(least, np.sqrt(least) * np.exp(-entropy))
    return _without(scores, softmax(scores) < demanded, keep)


def top_h(scores: np.ndarray, share: float) -> np.ndarray:
    """Keep the likeliest tokens within `share` of the entropy of the first 100 (Potraghloo et al. 2025)."""
    count = min(TOP_H_TOKENS, scores.shape[1])
    first = np.argpartition(scores, -count, axis=1)[:, -count:]
    values = np.take_along_axis(scores, first, axis=1)
    falling = np.argsort(-values, axis=1, kind="stable")
    first, values = np.take_along_axis(first, falling, axis=1), np.take_along_axis(values, falling, axis=1)
    logs, entropy = _entropy(values)
    inside = (_surprise(logs).cumsum(axis=1) <= share * entropy) & (np.exp(logs) > 0)
    inside[:, 0] = True
    left = np.full_like(scores, -np.inf)
    np.put_along_axis(left, first, np.where(inside, values, -np.inf), axis=1)
    return left


def _entropy(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the probabilities (R,V), and their entropy (R,1)."""
    logs = log_softmax(scores)
    return logs, _surprise(logs).sum(axis=1, keepdims=True)


def _surprise(logs: np.ndarray) -> np.ndarray:
    """The contribution of each token to the entropy; 0 for an impossible one."""
    return -np.exp(logs) * np.where(logs > -np.inf, logs, 0)


def _highest(values: np.ndarray, n: int) -> np.ndarray:
    """The n-th highest value (R,1) of each row, or the lowest where there are fewer."""
    n = min(n, values.shape[1])
    if n == 1:
        return values.max(axis=1, keepdims=True)
    return np.partition(values, -n, axis=1)[:, [-n]]


def _without(scores: np.ndarray, out: np.ndarray, keep: int) -> np.ndarray:
    """Scores with -inf for the tokens `out` (R,V) bool, except the `keep` likeliest."""
    return np.where(out & (scores < _highest(scores, keep)), -np.inf, scores)
