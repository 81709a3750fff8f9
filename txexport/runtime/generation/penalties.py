"""Score processors: penalties, bans and forced tokens.

Scores are (R,V) float32: R rows, V tokens. No function changes its input scores.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Rows = Sequence[Sequence[int] | np.ndarray]
HIGHEST_GAIN = 60.0  # logarithm of the largest factor by which exponential decay raises a score
BANNED = float(np.finfo(np.float32).max)  # the magnitude of a banned score after `finite`


@dataclass(frozen=True)
class Step:
    """The state of R rows, each without padding; for an encoder-decoder, the decoder's rows.

    `rows` are the tokens so far, prompt and new ones; arrays are fastest. `prompts` (R) are the numbers of
    prompt tokens, `limits` (R) the most tokens at the end, `origins` (R) the index of each row's source.
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
    """Add `always` (V) to every row, and the biases in `after` to rows that end with one of its keys.

    `after` maps token sequences to (token, bias) pairs; `lengths` are the lengths of its keys.
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
    """Subtract `penalty` from a token for each time that `chosen` has it (Vijayakumar et al. 2018, 4.1)."""
    less = scores.copy()
    for i, origin in enumerate(step.origins):
        tokens, counts = np.unique(np.array(chosen.get(origin, ()), np.int64), return_counts=True)
        less[i, tokens] -= np.float32(penalty) * counts
    return less


def encoder_repetition_penalty(
    step: Step, scores: np.ndarray, penalty: float, sources: Sequence[np.ndarray]
) -> np.ndarray:
    """Make the tokens of a row's source likelier if `penalty` is above 1."""
    return _penalized(scores, [sources[i] for i in step.origins], 1 / penalty)


def repetition_penalty(step: Step, scores: np.ndarray, penalty: float) -> np.ndarray:
    """Make the tokens of the row so far less likely if `penalty` is above 1 (Keskar et al. 2019, 4.1)."""
    return _penalized(scores, step.rows, penalty)


def _penalized(scores: np.ndarray, rows: Rows, penalty: float) -> np.ndarray:
    changed = scores.copy()
    for i, row in enumerate(rows):
        tokens = _array(row, scores)
        values = scores[i, tokens]
        changed[i, tokens] = np.where(values < 0, values * penalty, values / penalty)
    return changed


def count_penalty(step: Step, scores: np.ndarray, presence: float, frequency: float) -> np.ndarray:
    """Subtract `presence` from new tokens so far, and `frequency` for each time they occur (OpenAI)."""
    changed = scores.copy()
    for i, (row, prompt) in enumerate(zip(step.rows, step.prompts, strict=True)):
        tokens, counts = np.unique(_array(row[prompt:], scores), return_counts=True)
        changed[i, tokens] -= presence + frequency * counts
    return changed


def _array(row: Sequence[int] | np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The tokens of a row that have scores; a model may read ids that it cannot generate."""
    tokens = np.asarray(row, np.int64)
    return tokens[tokens < scores.shape[1]]


def no_repeat_ngram(step: Step, scores: np.ndarray, size: int) -> np.ndarray:
    """Ban tokens that would repeat an n-gram of `size` tokens of the row."""
    return _unrepeated(scores, step.rows, step.rows, size)


def encoder_no_repeat_ngram(
    step: Step, scores: np.ndarray, size: int, sources: Sequence[np.ndarray]
) -> np.ndarray:
    """Ban tokens that would repeat an n-gram of `size` tokens of the row's source."""
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
    """Ban end-of-sequence tokens before a row has `least` tokens."""
    return _without(scores, step.lengths < least, eos)


def min_new_tokens(step: Step, scores: np.ndarray, least: int, eos: np.ndarray) -> np.ndarray:
    """Ban end-of-sequence tokens before a row has `least` new tokens."""
    return _without(scores, step.new < least, eos)


def forced_bos(step: Step, scores: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Force the second token of a row."""
    return _only(scores, step.lengths == 1, tokens)


def forced_eos(step: Step, scores: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Force one of the tokens as a row's last, where nothing ends the row earlier."""
    return _only(scores, step.lengths == np.asarray(step.limits) - 1, tokens)


def finite(step: Step, scores: np.ndarray) -> np.ndarray:
    """Replace NaN by 0, and infinities by the largest numbers."""
    return np.nan_to_num(scores, nan=0.0, posinf=BANNED, neginf=-BANNED)


def exponential_decay(
    step: Step, scores: np.ndarray, start: int, factor: float, eos: np.ndarray
) -> np.ndarray:
    """Raise end-of-sequence scores, by `factor` to the power of the new tokens after `start`."""
    late = np.maximum(step.new - start, 0)
    if not late.any():
        return scores
    gain = np.exp(np.minimum(late * math.log(factor), HIGHEST_GAIN)) - 1  # (R)
    changed = scores.copy()
    size = np.abs(scores[:, eos])
    changed[:, eos] += np.where(size < BANNED, size * gain[:, None], 0)
    return changed


def suppress(step: Step, scores: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Ban the tokens at every step."""
    return _without(scores, np.full(len(scores), True), tokens)


def begin_suppress(step: Step, scores: np.ndarray, tokens: np.ndarray, after_bos: bool) -> np.ndarray:
    """Ban the tokens as a row's first new token, or as the one after a forced beginning of sequence."""
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
    """Scores with 0 for the tokens and -inf for all others, in the rows (R) bool."""
    if not rows.any():
        return scores
    changed = scores.copy()
    changed[rows] = -np.inf
    changed[np.ix_(rows, tokens)] = 0
    return changed
