"""What tensors mean beside their numbers: labels and ranks of scores, directions of vectors, tokens."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from txexport.contracts.names import LOGITS, POOLER_OUTPUT
from txexport.verification.bounds import size

RANKED = 10  # of the best scores, compared place by place
VECTORS = ("hidden_state", POOLER_OUTPUT, "embeds")  # outputs whose last axis is a vector with a direction


@dataclass(frozen=True)
class Behaviour:
    """What an output says, counted over one case.

    `chosen` rows of scores, or rows of generated tokens, of which `equal` choose the same as the reference;
    in `ties` the reference finds what was chosen as good as its own choice, within the tolerance. `ranked`
    places of the best scores, of which `places` hold the same. `cosine` is the smallest between a vector and
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
        """Whether every other choice is a tie, and no vector points the other way."""
        return self.equal + self.ties == self.chosen and (self.cosine is None or self.cosine >= 0)

    @property
    def summary(self) -> str:
        """In a line."""
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
        """Both together."""
        cosines = [value for value in (self.cosine, other.cosine) if value is not None]
        counts = ("chosen", "equal", "ties", "ranked", "places")
        sums = {name: getattr(self, name) + getattr(other, name) for name in counts}
        return Behaviour(**sums, cosine=min(cosines, default=None))


def behaviour(output: str, pairs: Iterable[tuple[np.ndarray, np.ndarray]], bound: float) -> Behaviour | None:
    """What an output of that name says over pairs of (found, expected); None for caches, and other shapes."""
    scores, vectors = LOGITS in output, any(name in output for name in VECTORS)
    if not (scores or vectors):
        return None
    total = Behaviour()
    for found, expected in pairs:
        if found.shape != expected.shape or not expected.size:
            return None
        rows, truth = (array.reshape(-1, array.shape[-1]).astype(np.float64) for array in (found, expected))
        if scores and truth.shape[1] > 1:
            total = total.merged(_choices(rows, truth, bound))
        elif vectors:
            total = total.merged(Behaviour(cosine=_cosine(rows, truth)))
    return total if total != Behaviour() else None


def _choices(found: np.ndarray, expected: np.ndarray, bound: float) -> Behaviour:
    """Rows (R,V) of scores. Two choices are a tie where each of their scores may be off by the bound."""
    ours, theirs = found.argmax(axis=1), expected.argmax(axis=1)
    best = expected.max(axis=1)
    short = best - expected[np.arange(len(ours)), ours]
    near = short <= 2 * bound * size(expected)[np.arange(len(theirs)), theirs]
    count = min(RANKED, expected.shape[1])
    tops = (best_of(rows, count) for rows in (found, expected))
    same = np.equal(*tops)
    equal = ours == theirs
    return Behaviour(len(ours), int(equal.sum()), int((near & ~equal).sum()), same.size, int(same.sum()))


def best_of(scores: np.ndarray, count: int) -> np.ndarray:
    """The places (R,count) of each row's best scores (R,V), best first, and of equal ones the lower first.

    As a stable sort of all has them, which of a large vocabulary takes ten times as long.
    """
    if np.isnan(scores).any() or count >= scores.shape[1]:
        return np.argsort(-scores, axis=1, kind="stable")[:, :count]
    least = np.partition(scores, scores.shape[1] - count, axis=1)[:, scores.shape[1] - count]
    result = np.empty((len(scores), count), np.intp)
    for place, row in enumerate(scores):
        near = np.flatnonzero(row >= least[place])
        result[place] = near[np.argsort(-row[near], kind="stable")[:count]]
    return result


def _cosine(found: np.ndarray, expected: np.ndarray) -> float:
    """The smallest cosine of rows (R,W) that have a direction; not-a-number counts as none at all."""
    sizes = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = np.where(sizes == 0, 1.0, (found * expected).sum(axis=1) / sizes)
    return float(np.clip(np.nan_to_num(cosines, nan=-1.0), -1.0, 1.0).min())
