"""Agreement of two outputs beyond their numbers: best scores and their ranks, cosines of vectors."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from txexport.contracts.meaning import Kind, Meaning
from txexport.verification.bounds import size

RANKED = 10  # best scores, compared rank by rank


@dataclass(frozen=True)
class Behaviour:
    """Agreement of an output with the reference's beyond their numbers, counted over one case.

    `chosen` are rows of scores, or generated tokens. In `equal` of them the best is the reference's best; in
    `ties` it is another one with the same score within the tolerance. `ranked` is the number of compared
    ranks of best scores, `places` the number of equal ones. `cosine` is the smallest cosine of a vector and
    the reference's.
    """

    chosen: int = 0
    equal: int = 0
    ties: int = 0
    ranked: int = 0
    places: int = 0
    cosine: float | None = None

    @property
    def ok(self) -> bool:
        """True if every choice is equal or a tie, and no cosine is negative."""
        return self.equal + self.ties == self.chosen and (self.cosine is None or self.cosine >= 0)

    @property
    def summary(self) -> str:
        """The counts in a line of text."""
        parts = []
        if self.chosen:
            ties = f" and {self.ties} ties" if self.ties else ""
            parts.append(f"{self.equal} of {self.chosen} choices equal{ties}")
        if self.ranked:
            parts.append(f"{self.places} of {self.ranked} best ranks")
        if self.cosine is not None:
            parts.append(f"cosine {self.cosine:.7f}")
        return ", ".join(parts)

    def merged(self, other: "Behaviour") -> "Behaviour":
        """The counts of both cases together."""
        cosines = [value for value in (self.cosine, other.cosine) if value is not None]
        counts = ("chosen", "equal", "ties", "ranked", "places")
        sums = {name: getattr(self, name) + getattr(other, name) for name in counts}
        return Behaviour(**sums, cosine=min(cosines, default=None))


def behaviour(
    meaning: Meaning, pairs: Iterable[tuple[np.ndarray, np.ndarray]], bound: float
) -> Behaviour | None:
    """Choices, ranks and cosines over pairs of (found, expected).

    Scores alone are ranked, along their axis. An output of unknown meaning has the cosine of the whole
    tensor. None for plain numbers, for single scores, and for pairs of different shapes.
    """
    if meaning.kind is Kind.NUMBERS:
        return None
    total = Behaviour()
    for found, expected in pairs:
        if found.shape != expected.shape or not expected.size:
            return None
        if meaning.kind is not Kind.SCORES:
            cosine = _cosine(rows(found, meaning), rows(expected, meaning))
            total = total.merged(Behaviour(cosine=cosine))
        elif meaning.axis is not None and expected.shape[meaning.axis] > 1:
            total = total.merged(_choices(found, expected, meaning, bound))
    return total if total != Behaviour() else None


def rows(array: np.ndarray, meaning: Meaning) -> np.ndarray:
    """An output as (R,C) in float64: C the classes or components of its meaning, or the whole tensor."""
    if meaning.axis is None:
        return array.reshape(1, -1).astype(np.float64)
    return np.moveaxis(array, meaning.axis, -1).reshape(-1, array.shape[meaning.axis]).astype(np.float64)


def _choices(found: np.ndarray, expected: np.ndarray, meaning: Meaning, bound: float) -> Behaviour:
    """The best of each row of scores. Two choices are a tie if their scores are equal within the bound."""
    scores, truth, sizes = (rows(one, meaning) for one in (found, expected, size(expected)))
    ours, theirs = scores.argmax(axis=1), truth.argmax(axis=1)
    every = np.arange(len(truth))
    shortfall = truth.max(axis=1) - truth[every, ours]
    near = shortfall <= 2 * bound * sizes[every, theirs]
    count = min(RANKED, truth.shape[1])
    ranks = np.equal(best_of(scores, count), best_of(truth, count))
    equal = ours == theirs
    return Behaviour(len(ours), int(equal.sum()), int((near & ~equal).sum()), ranks.size, int(ranks.sum()))


def best_of(scores: np.ndarray, count: int) -> np.ndarray:
    """The indices (R,count) of each row's best scores (R,V), best first; of ties the lower index first.

    The order is that of a stable sort, which takes ten times as long for a large vocabulary.
    """
    if np.isnan(scores).any() or count >= scores.shape[1]:
        return np.argsort(-scores, axis=1, kind="stable")[:, :count]
    least = np.partition(scores, scores.shape[1] - count, axis=1)[:, scores.shape[1] - count]
    result = np.empty((len(scores), count), np.intp)
    for i, row in enumerate(scores):
        candidates = np.flatnonzero(row >= least[i])
        result[i] = candidates[np.argsort(-row[candidates], kind="stable")[:count]]
    return result


def _cosine(found: np.ndarray, expected: np.ndarray) -> float:
    """The smallest cosine of rows (R,W). Rows of zeros are left out; NaN counts as -1."""
    sizes = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = np.where(sizes == 0, 1.0, (found * expected).sum(axis=1) / sizes)
    return float(np.clip(np.nan_to_num(cosines, nan=-1.0), -1.0, 1.0).min())
