"""Score processors: penalties, bans and forced tokens.

Scores are (R,V) float32: R rows, V tokens. No function changes the scores it is given.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Rows = Sequence[Sequence[int] | np.ndarray]
HIGHEST_GAIN = 60.0  # logarithm of the largest factor by which exponential decay raises a score
BANNED = float(np.finfo(np.float32).max)  # the size of a ban's score where `finite` wrote it


@dataclass(frozen=True)
class Step:
    """Where R rows are, each for itself and without padding; for an encoder-decoder, its decoder's.

    `rows` are the tokens so far, prompt and new ones, cheapest as arrays. `prompts` is how many of them were
    given, `limits` how many there may be in the end, `origins` which of the sources a row belongs to.
    """

    rows: Rows
    prompts: Sequence[int] | np.ndarray
    limits: Sequence[int] | np.ndarray
    origins: Sequence[int] | np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row (R)."""
        return np.array([len(row) for row in self.rows])

    @property
    def new(self) -> np.ndarray:
        """The number of new tokens of each row (R)."""
        return self.lengths - np.asarray(self.prompts)


Processor = Callable[[Step, np.ndarray], np.ndarray]


def sequence_bias(
    step: Step,
    scores: np.ndarray,
    always: np.ndarray,
    after: Mapping[tuple[int, ...], list[tuple[int, float]]],
    lengths: set[int],
) -> np.ndarray:
    """`always` (V) added to every row, and to a row that ends with a key of `after` its (token, bias) pairs.

    `lengths` are those of the keys.
    """
    biased = scores + always
    for i, row in enumerate(step.rows):
        for length in lengths:
            if length <= len(row):
                for token, bias in after.get(tuple(row[-length:]), ()):
                    biased[i, token] += bias
    return biased


def hamming_diversity(
    step: Step, scores: np.ndarray, penalty: float, chosen: Mapping[int, Sequence[int]]
) -> np.ndarray:
    """`penalty` off a token for each time that `chosen` has it, by origin (Vijayakumar et al. 2018, 4.1)."""
    less = scores.copy()
    for i, origin in enumerate(step.origins):
        tokens, counts = np.unique(np.array(chosen.get(origin, ()), np.int64), return_counts=True)
        less[i, tokens] -= np.float32(penalty) * counts
    return less


def encoder_repetition_penalty(
    step: Step, scores: np.ndarray, penalty: float, sources: Sequence[np.ndarray]
) -> np.ndarray:
    """Tokens of a row's source made likelier by a `penalty` above 1."""
    return _penalized(scores, [sources[i] for i in step.origins], 1 / penalty)


def repetition_penalty(step: Step, scores: np.ndarray, penalty: float) -> np.ndarray:
    """Tokens of the row so far made less likely by a `penalty` above 1 (Keskar et al. 2019, 4.1)."""
    return _penalized(scores, step.rows, penalty)


def _penalized(scores: np.ndarray, rows: Rows, penalty: float) -> np.ndarray:
    changed = scores.copy()
    for i, row in enumerate(rows):
        tokens = _array(row, scores)
        own = scores[i, tokens]
        changed[i, tokens] = np.where(own < 0, own * penalty, own / penalty)
    return changed


def count_penalty(step: Step, scores: np.ndarray, presence: float, frequency: float) -> np.ndarray:
    """New tokens so far less likely by `presence`, and by `frequency` each time they are there (OpenAI)."""
    changed = scores.copy()
    for i, (row, prompt) in enumerate(zip(step.rows, step.prompts, strict=True)):
        tokens, counts = np.unique(_array(row[prompt:], scores), return_counts=True)
        changed[i, tokens] -= presence + frequency * counts
    return changed


def _array(row: Sequence[int] | np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The tokens of a row that have scores: a model may read tokens that it cannot write."""
    tokens = np.asarray(row, np.int64)
    return tokens[tokens < scores.shape[1]]


def no_repeat_ngram(step: Step, scores: np.ndarray, size: int) -> np.ndarray:
    """No token that would repeat `size` tokens of the row."""
    return _unrepeated(scores, step.rows, step.rows, size)


def encoder_no_repeat_ngram(
    step: Step, scores: np.ndarray, size: int, sources: Sequence[np.ndarray]
) -> np.ndarray:
    """No token that would repeat `size` tokens of the row's source."""
    return _unrepeated(scores, step.rows, [sources[i] for i in step.origins], size)


def _unrepeated(scores: np.ndarray, rows: Rows, texts: Rows, size: int) -> np.ndarray:
    changed = scores.copy()
    for i, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if len(text) >= size and len(row) >= size - 1:
            windows = np.lib.stride_tricks.sliding_window_view(np.asarray(text, np.int64), size)
            last = np.asarray(row[len(row) + 1 - size :], np.int64)  # (size-1)
            repeated = (windows[:, :-1] == last).all(axis=1)
            changed[i, _array(windows[repeated, -1], scores)] = -np.inf
    return changed


def min_length(step: Step, scores: np.ndarray, least: int, eos: np.ndarray) -> np.ndarray:
    """No end of sequence before a row has `least` tokens."""
    return _without(scores, step.lengths < least, eos)


def min_new_tokens(step: Step, scores: np.ndarray, least: int, eos: np.ndarray) -> np.ndarray:
    """No end of sequence before a row has `least` new tokens."""
    return _without(scores, step.new < least, eos)


def forced_bos(step: Step, scores: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The token that comes second in a row."""
    return _only(scores, step.lengths == 1, tokens)


def forced_eos(step: Step, scores: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The tokens, one of which is a row's last where nothing ends it earlier."""
    return _only(scores, step.lengths == np.asarray(step.limits) - 1, tokens)


def finite(step: Step, scores: np.ndarray) -> np.ndarray:
    """0 for what is no number, and the largest numbers for infinities."""
    return np.nan_to_num(scores, nan=0.0, posinf=BANNED, neginf=-BANNED)


def exponential_decay(
    step: Step, scores: np.ndarray, start: int, factor: float, eos: np.ndarray
) -> np.ndarray:
    """Ends of sequence likelier by `factor` with every token after the new one `start`."""
    late = np.maximum(step.new - start, 0)
    if not late.any():
        return scores
    gain = np.exp(np.minimum(late * math.log(factor), HIGHEST_GAIN)) - 1  # (R)
    changed = scores.copy()
    size = np.abs(scores[:, eos])
    changed[:, eos] += np.where(size < BANNED, size * gain[:, None], 0)
    return changed


def suppress(step: Step, scores: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """None of the tokens, ever."""
    return _without(scores, np.full(len(scores), True), tokens)


def begin_suppress(step: Step, scores: np.ndarray, tokens: np.ndarray, after_bos: bool) -> np.ndarray:
    """None of the tokens as a row's first new one, or after a forced beginning of sequence."""
    first = np.where((np.asarray(step.prompts) == 1) & after_bos, 1, 0)
    return _without(scores, step.new == first, tokens)


def _without(scores: np.ndarray, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Scores with the tokens ruled out in the rows (R) bool."""
    if not rows.any():
        return scores
    changed = scores.copy()
    changed[np.ix_(rows, tokens)] = -np.inf
    return changed


def _only(scores: np.ndarray, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Scores with only the tokens left in the rows (R) bool, and all of them alike."""
    if not rows.any():
        return scores
    changed = scores.copy()
    changed[rows] = -np.inf
    changed[np.ix_(rows, tokens)] = 0
    return changed
