"""The likeliest continuations of hypotheses, with few passes over the vocabulary.

A sources, N hypotheses of each, R = A*N rows, V vocabulary.
"""

from collections.abc import Callable

import numpy as np

from txexport.runtime.generation.sampling import log_softmax

BLOCKS = 256  # blocks of a vocabulary, each of every 256th token; their maxima bound the search


def top(values: np.ndarray, count: int) -> np.ndarray:
    """Indices (A,count) of the highest values of each row (A,V), the highest first."""
    count = min(count, values.shape[1])
    if values.shape[1] < BLOCKS or count > BLOCKS:
        return np.argsort(-values, axis=1, kind="stable")[:, :count]
    return _highest(values, len(values), count, _block_maxima(values), lambda numbers, row: numbers)[0]


def likeliest(logits: np.ndarray, before: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The result of `top` for `before` (A,N) plus log_softmax of finite logits (A,N,V).

    Returns indices (A,count) into the N*V sums of a source, and these sums. The other sums are not computed:
    passes over them take as long as a step of a small model.
    """
    sources, vocab_size = len(logits), logits.shape[2]
    if vocab_size < BLOCKS or count > BLOCKS:
        sums = (log_softmax(logits) + before[:, :, None]).reshape(sources, -1)
        indices = top(sums, count)
        return indices, np.take_along_axis(sums, indices, axis=1)
    rows, scores, powers = logits.reshape(-1, vocab_size), before.ravel(), np.empty(vocab_size, np.float32)
    maxima, highest = _block_maxima(rows), rows.max(axis=1)
    totals = np.empty_like(highest)
    for place, row in enumerate(rows):  # one row fits into a processor's cache
        np.subtract(row, highest[place], out=powers)
        totals[place] = np.exp(powers, out=powers).sum()
    logs = np.log(totals)

    def score(numbers: np.ndarray, row: np.ndarray) -> np.ndarray:
        return (numbers - highest[row]) - logs[row] + scores[row]

    every = np.arange(len(rows))[:, None]
    return _highest(rows, sources, count, score(maxima, every), score)


def _highest(
    rows: np.ndarray,
    sources: int,
    count: int,
    maxima: np.ndarray,
    score: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Indices (A,count) into the N*V scores of each source, and these scores, the highest first.

    Equal scores are in order of index. `score` takes values and their rows in (R,V), and returns their
    scores; it must be monotonic in the values. `maxima` (R,BLOCKS) are the scores of the blocks' maxima.
    """
    each, vocab_size = len(rows) // sources, rows.shape[1]
    covered = vocab_size - vocab_size % BLOCKS
    # The count-th highest of the maxima is at most the count-th highest of all.
    bounds = np.partition(maxima.reshape(sources, -1), -count, axis=1)[:, -count]
    row, block = np.nonzero(maxima >= np.repeat(bounds, each)[:, None])
    inside = block[:, None] + np.arange(0, covered, BLOCKS)
    left = np.arange(covered, vocab_size)  # in no block
    word = np.concatenate([inside.ravel(), np.tile(left, len(rows))])
    row = np.concatenate([np.repeat(row, inside.shape[1]), np.repeat(np.arange(len(rows)), len(left))])
    scores = score(rows[row, word], row)
    near = np.flatnonzero(scores >= bounds[row // each])
    source, place, scores = row[near] // each, row[near] % each * vocab_size + word[near], scores[near]
    order = np.lexsort((place, -scores, source))
    best = order[np.searchsorted(source[order], np.arange(sources))[:, None] + np.arange(count)]
    return place[best], scores[best]


def _block_maxima(values: np.ndarray) -> np.ndarray:
    """Maxima (R,BLOCKS) of the blocks of rows (R,V); the remainder at the end is in no block."""
    covered = values.shape[1] - values.shape[1] % BLOCKS
    maxima: np.ndarray = values[:, :covered].reshape(len(values), -1, BLOCKS).max(axis=1)
    return maxima
