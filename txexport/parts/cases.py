"""Seeded cases of a proof: rows, their padding, and the steps in which a decoder reads them."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, log

import numpy as np

from txexport.parts.inputs import input_of
from txexport.parts.part import Skipped, Sources
from txexport.spec import ExpertsSpec, StackSpec, TextStackSpec

LONGEST = 1024  # tokens of the longest case where a model has no limit, or one out of reach
BEAMS, BEAM_TOKENS = 4, 8  # of a beam search, and the tokens that it adds at most
MANY = [3, 8, 1, 5, 12, 2, 7, 4, 6]  # lengths of the largest batch


@dataclass(frozen=True)
class DualEncoderCase:
    """Texts and images to compare, each with each. Ids are ended by the mark and padded after it.

    Where `alone`, the reference reads every text by itself, without padding.
    """

    name: str
    input_ids: np.ndarray  # (T, S)
    attention_mask: np.ndarray  # (T, S)
    pixel_values: np.ndarray  # (I, channels, height, width)
    alone: bool = True


@dataclass(frozen=True)
class EncoderCase:
    """A padded batch. Where `alone`, the reference reads every row by itself, without padding."""

    name: str
    input_ids: np.ndarray  # (B, S)
    attention_mask: np.ndarray  # (B, S)
    token_type_ids: np.ndarray  # (B, S)
    global_attention_mask: np.ndarray  # (B, S)
    alone: bool
    choices: bool = False  # each row is read three times, as a choice


@dataclass(frozen=True)
class DecoderCase:
    """Rows of tokens, read in steps: `steps` (number of steps, B) says how many tokens of each row.

    `left` pads the steps on the left. `sources` are the encoder's where there is one: rows of tokens, or
    spectrograms (bands,frames).
    """

    name: str
    rows: list[list[int]]
    steps: np.ndarray
    left: bool = False
    sources: Sources | None = None


@dataclass(frozen=True)
class GreedyCase:
    """Prompts, or sources of an encoder-decoder, to extend by `new_tokens`, or by that many `beams`."""

    name: str
    rows: Sources
    new_tokens: int
    beams: int = BEAMS
    beam_search: bool = False


def encoder_cases(
    vocab_size: int,
    segments: int,
    longest: int,
    padding: int | None = None,
    dropped: int | None = None,
    mark: int | None = None,
    alone: bool = True,
    seed: int = 0,
) -> list[EncoderCase]:
    """Batches of 1, 2, 3 and 9; lengths 1, odd, and the longest; padding right, left and scattered.

    What is masked is of the id `padding`, or of any id where a model looks at the mask only. Every row ends
    in a `mark`, and where all are longer each has another before. Rows of one batch have several global
    tokens, one or none. Not `alone` are rows whose vector is of another place without the padding.
    """
    random = np.random.default_rng(seed)
    cases: list[EncoderCase] = []
    for name, lengths, side in [
        ("one token", [1], "right"),
        ("one row of odd length", [7], "right"),
        ("two equal rows", [6, 6], "right"),
        ("three ragged rows, right padding", [5, 11, 1], "right"),
        ("three ragged rows, left padding", [5, 11, 1], "left"),
        ("three rows, scattered padding", [12, 12, 12], "scattered"),
        ("longest and short row", [longest, 3], "right"),
        ("nine ragged rows", MANY, "right"),
    ]:
        lengths = [min(length, longest) for length in lengths]
        shape = (len(lengths), max(lengths))
        positions = np.arange(shape[1])
        filled = np.array(lengths)[:, None]
        mask = positions < filled if side != "left" else positions >= shape[1] - filled
        if side == "scattered":
            mask = random.random(shape) < 0.6
            mask[:, random.integers(shape[1])] = True
        ids = random.integers(0, vocab_size, shape)
        ids = np.where((ids == dropped) & ~mask, (ids + 1) % vocab_size, ids)
        if mark is not None:
            ids = _marked(ids, mask, mark, vocab_size)
        cases.append(
            EncoderCase(
                name,
                ids if padding is None else np.where(mask, ids, padding),
                mask.astype(np.int64),
                random.integers(0, max(1, segments), shape),
                _marks(len(cases), mask),
                alone=alone and side == "right",
            )
        )
    return cases


def _marked(ids: np.ndarray, mask: np.ndarray, mark: int, vocab_size: int) -> np.ndarray:
    """ids (B,S) with equally many marks in every row, as originals ask: the last real token, and one more."""
    ids = np.where(ids == mark, (ids + 1) % vocab_size, ids)
    rows, last = np.arange(len(ids)), mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
    ids[rows, last] = mark
    if mask.sum(axis=1).min() > 1:
        ids[rows, mask.argmax(axis=1)] = mark
    return ids


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
    longest: int,
    *,
    ragged: bool,
    left: bool,
    experts: int = 0,
    source: StackSpec | None = None,
    source_longest: int = 0,
    seed: int = 0,
) -> list[DecoderCase]:
    """Prompts and steps over a growing past.

    `ragged` includes rows of different lengths, `left` left padding; for each row there is a source where an
    encoder `source` reads one, the longest of them of `source_longest` tokens. No row holds the id that the
    encoder takes for padding: some originals count it as no token in the decoder either. `experts` is how
    many tokens suffice for each expert to be taken by one.
    """
    random = np.random.default_rng(seed)
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
    lengths = itertools.cycle([9, 4, 1, 13, *([source_longest] if source is not None else [])])
    most = source_longest or LONGEST  # what an encoder of texts reads
    drawn = [[min(next(lengths), most) for _ in steps[0]] for _, steps, _ in plans]
    many = np.array(MANY if ragged else [5] * len(MANY))
    plans.append(("nine rows, then a step", np.stack([many, np.ones_like(many)]), False))
    drawn.append([min(length, most) for length in MANY])
    if experts:
        rows = -(-experts // min(longest, 64))
        plans.append(("every expert", np.full((1, rows), min(longest, 64)), False))
        drawn.append([min(4, most)] * rows)
    padding = source.embedding.position.pad_token_id if isinstance(source, TextStackSpec) else None
    return [
        DecoderCase(
            name,
            [_tokens(random, vocab_size, n, padding) for n in steps.sum(axis=0)],
            steps,
            padded_left,
            input_of(source).rows(source, random, read) if source else None,
        )
        for (name, steps, padded_left), read in zip(plans, drawn, strict=True)
        if steps.sum(axis=0).max() <= longest and steps.sum(axis=0).min() >= 1 and steps.any(axis=1).all()
    ]


def one_row(name: str, vocab_size: int, length: int, seed: int = 0) -> DecoderCase:
    """A prompt of a row in one pass."""
    tokens = _tokens(np.random.default_rng(seed), vocab_size, length, None)
    return DecoderCase(name, [tokens], np.array([[length]]))


def _tokens(random: np.random.Generator, vocab_size: int, count: int, padding: int | None) -> list[int]:
    ids = random.integers(0, vocab_size, count)
    return np.where(ids == padding, (ids + 1) % vocab_size, ids).tolist()


def greedy_cases(
    vocab_size: int, limit: int | None, source: StackSpec | None, seed: int = 0
) -> list[GreedyCase]:
    """Ragged prompts, or what an encoder `source` reads, to extend by tokens of the model's own choice.

    Prompts leave room for at least one token, and sources are no longer than what the encoder reads.
    """
    random, most = np.random.default_rng(seed), limit or LONGEST
    lengths = [4, 9, 1]
    if source is None:
        lengths = [min(length, max(1, most - 1)) for length in lengths]
        rows: Sources = [random.integers(0, vocab_size, n).tolist() for n in lengths]
        new_tokens = min(12, most - max(lengths))
    else:
        rows = input_of(source).rows(source, random, [min(n, source.limit or LONGEST) for n in lengths])
        new_tokens = min(12, most - 1)
    return [GreedyCase("greedy, three ragged rows", rows, new_tokens)] if new_tokens > 0 else []


def beam_case(prompts: GreedyCase, vocab_size: int) -> "GreedyCase | Skipped":
    """Beam search over the first two prompts, with no more beams than different texts are possible."""
    name, new_tokens = "beams, two rows", min(BEAM_TOKENS, prompts.new_tokens)
    beams = min(BEAMS, vocab_size**new_tokens)
    if beams == 1:
        return Skipped(name, "a vocabulary of one token makes no two beams")
    return replace(
        prompts, name=name, rows=prompts.rows[:2], new_tokens=new_tokens, beams=beams, beam_search=True
    )


def tokens_for_experts(stack: StackSpec) -> int:
    """Random tokens of which each expert of every layer gets one, but for one run in a thousand; 0 without.

    Three times as many as with equal chances, which routers do not give; a report says how many were reached.
    """
    kinds = [block.feed_forward for block in stack.layers if isinstance(block.feed_forward, ExpertsSpec)]
    tokens = (3 * kind.num_experts / kind.top_k * log(1000 * kind.num_experts * len(kinds)) for kind in kinds)
    return ceil(max(tokens, default=0))


def generation_cases(
    vocab_size: int, decoder: TextStackSpec, source: StackSpec | None
) -> "Iterator[GreedyCase | Skipped]":
    """Greedy decoding of prompts, or of what an encoder `source` reads, and beam search over them."""
    for prompts in greedy_cases(vocab_size, decoder.limit, source):
        yield prompts
        yield beam_case(prompts, vocab_size)
