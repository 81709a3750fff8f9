"""The seeded cases: which rows, how padded, in which steps."""

import itertools
from dataclasses import dataclass

import numpy as np

LONGEST = 1024  # tokens of the longest case; shorter where the model's limit is


@dataclass(frozen=True)
class EncoderCase:
    """A padded batch. Where `alone`, the reference reads every row by itself, without padding."""

    name: str
    input_ids: np.ndarray  # (B, S)
    attention_mask: np.ndarray  # (B, S)
    token_type_ids: np.ndarray  # (B, S)
    global_attention_mask: np.ndarray  # (B, S)
    alone: bool


@dataclass(frozen=True)
class DecoderCase:
    """Rows of tokens, read in steps: `steps` (number of steps, B) says how many tokens of each row.

    `left` pads the steps on the left. `sources` are the encoder's rows where there is one.
    """

    name: str
    rows: list[list[int]]
    steps: np.ndarray
    left: bool = False
    sources: list[list[int]] | None = None


@dataclass(frozen=True)
class GreedyCase:
    """Prompts, or sources of an encoder-decoder, to extend by `new_tokens`."""

    name: str
    rows: list[list[int]]
    new_tokens: int


def _longest(limit: int | None, window: int | None) -> int:
    """Tokens of the longest case: beyond a window, so that it is seen to hide something."""
    wanted = max(LONGEST, (window or 0) + 2)
    return min(limit or wanted, wanted)


def encoder_cases(
    vocab_size: int,
    segments: int,
    limit: int | None,
    window: int | None = None,
    padding: int | None = None,
    seed: int = 0,
) -> list[EncoderCase]:
    """Batches of 1, 2 and 3; lengths 1, odd, and the longest; padding right, left and scattered.

    What is masked is of the id `padding`, or of any id where a model looks at the mask only. Rows of one
    batch have several global tokens, one or none.
    """
    random = np.random.default_rng(seed)
    longest = _longest(limit, window)
    cases: list[EncoderCase] = []
    for name, lengths, side in [
        ("one token", [1], "right"),
        ("one row of odd length", [7], "right"),
        ("two equal rows", [6, 6], "right"),
        ("three ragged rows, right padding", [5, 11, 1], "right"),
        ("three ragged rows, left padding", [5, 11, 1], "left"),
        ("three rows, scattered padding", [12, 12, 12], "scattered"),
        ("longest and short row", [longest, 3], "right"),
    ]:
        lengths = [min(length, longest) for length in lengths]
        shape = (len(lengths), max(lengths))
        places = np.arange(shape[1])
        filled = np.array(lengths)[:, None]
        mask = places < filled if side != "left" else places >= shape[1] - filled
        if side == "scattered":
            mask = random.random(shape) < 0.6
            mask[:, random.integers(shape[1])] = True
        ids = random.integers(0, vocab_size, shape)
        cases.append(
            EncoderCase(
                name,
                ids if padding is None else np.where(mask, ids, padding),
                mask.astype(np.int64),
                random.integers(0, max(1, segments), shape),
                _marks(len(cases), mask),
                alone=side == "right",
            )
        )
    return cases


def _marks(case: int, mask: np.ndarray) -> np.ndarray:
    """Global tokens of a case, mask (B,S): several in one row, none in the next, then the first real one."""
    marks, random = np.zeros(mask.shape, np.int64), np.random.default_rng(case)
    for row, real in enumerate(mask):
        kind = (case + row) % 3
        if kind == 0:
            marks[row] = random.random(len(real)) < 0.3  # padding too, which is no token
        elif kind == 2:
            marks[row, real.argmax()] = 1
    return marks


def decoder_cases(
    vocab_size: int,
    limit: int | None,
    *,
    ragged: bool,
    left: bool,
    window: int | None = None,
    source_limit: int | None = None,
    sources: bool = False,
    seed: int = 0,
) -> list[DecoderCase]:
    """Prompts and steps over a growing past.

    `ragged` includes rows of different lengths, `left` left padding; `sources` gives each row an encoder
    input, of ragged lengths up to `source_limit`.
    """
    random = np.random.default_rng(seed)
    longest = _longest(limit, window)
    one = np.ones((4, 1), np.int64)
    plans: list[tuple[str, np.ndarray, bool]] = [
        ("one token, then steps", one, False),
        ("odd prompt, then steps", np.array([[7], [1], [1]]), False),
        ("prompt in chunks", np.array([[5], [3], [1], [4]]), False),
        ("two equal rows, several tokens a step", np.array([[4, 4], [3, 3], [2, 2]]), False),
        ("longest sequence, one step from its end", np.array([[longest - 1], [1]]), False),
        ("longest sequence in two chunks", np.array([[longest // 2], [longest - longest // 2]]), False),
    ]
    if ragged:
        plans += [
            ("three ragged rows, then steps", np.array([[5, 11, 1], [1, 1, 1], [1, 1, 1]]), False),
            ("three ragged rows in chunks", np.array([[3, 4, 1], [2, 4, 0], [0, 3, 0], [1, 1, 1]]), False),
            ("a row that ends early", np.array([[2, 6], [1, 1], [0, 1], [0, 1]]), False),
        ]
    if left:
        plans.append(("three ragged rows, left padding", np.array([[5, 11, 1], [1, 1, 1], [1, 1, 1]]), True))
    lengths = itertools.cycle([9, 4, 1, 13, min(source_limit or LONGEST, LONGEST)])
    return [
        DecoderCase(
            name,
            [random.integers(0, vocab_size, n).tolist() for n in steps.sum(axis=0)],
            steps,
            padded_left,
            [random.integers(0, vocab_size, next(lengths)).tolist() for _ in steps[0]] if sources else None,
        )
        for name, steps, padded_left in plans
        if steps.sum(axis=0).max() <= longest and steps.sum(axis=0).min() >= 1
    ]


def greedy_cases(vocab_size: int, limit: int | None, seed: int = 0) -> list[GreedyCase]:
    """Ragged rows to extend by tokens of the model's own choice."""
    random = np.random.default_rng(seed)
    new_tokens = min(12, (limit or LONGEST) - 9)
    rows = [random.integers(0, vocab_size, n).tolist() for n in (4, 9, 1)]
    return [GreedyCase("greedy, three ragged rows", rows, new_tokens)] if new_tokens > 0 else []
