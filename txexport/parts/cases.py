"""Seeded test cases: rows of tokens, their padding, and the steps in which a decoder reads them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log

import numpy as np

from txexport.parts.inputs import input_of
from txexport.parts.masks import MANY, seeded_masks
from txexport.parts.part import PixelInputs, SignalCase, Skipped, Sources
from txexport.spec import EncoderDecoderSpec, FlattenedPatchesSpec, GatedFramesSpec, StackSpec, TextStackSpec

LONGEST = 1024  # tokens of the longest case if the model's limit is larger, or none
BEAMS, BEAM_TOKENS = 4, 8  # beams of a beam search, and its maximum of new tokens


@dataclass(frozen=True)
class DualEncoderCase:
    """Texts and signals; each text is compared with each signal. A text ends in the mark, then padding.

    If `alone`, the reference reads every text separately, without padding.
    """

    name: str
    input_ids: np.ndarray  # (T, S)
    attention_mask: np.ndarray  # (T, S)
    signals: np.ndarray  # (I, ...): pixels or spectrograms
    alone: bool = True
    beside: Mapping[str, np.ndarray] = field(default_factory=dict)  # other inputs of the signals' graph


@dataclass(frozen=True)
class DescribedCase(DualEncoderCase):
    """Texts and images: every text may describe something in every image. The reference reads each alone."""


@dataclass(frozen=True)
class DescribedSegmentsCase(DualEncoderCase):
    """Texts and images: every text may describe a part of every image. The reference reads each alone."""


@dataclass(frozen=True)
class PromptCase:
    """Images, and for each of them groups of points with labels, and maybe a box or a mask for each group."""

    name: str
    pixel_values: np.ndarray  # (B, channels, height, width)
    input_points: np.ndarray  # (B, P, N, 2)
    input_labels: np.ndarray  # (B, P, N)
    input_boxes: np.ndarray | None = None  # (B, P, 4)
    input_masks: np.ndarray | None = None  # (B, P, 4R, 4C): logits


@dataclass(frozen=True)
class EncoderCase:
    """A padded batch. If `alone`, the reference reads every row separately, without padding."""

    name: str
    input_ids: np.ndarray  # (B, S)
    attention_mask: np.ndarray  # (B, S)
    token_type_ids: np.ndarray  # (B, S)
    global_attention_mask: np.ndarray  # (B, S)
    alone: bool
    choices: bool = False  # each row is repeated three times, as choices


@dataclass(frozen=True)
class DecoderCase:
    """Rows of tokens, read in steps; `steps` (number of steps, B) has the tokens of each row per step.

    `left` pads the steps on the left. `sources` are the inputs of an encoder, if there is one: rows of
    tokens, or signals. With a `batch`, encoder and reference read them padded, all at once. `images` are
    those among the tokens of each row.
    """

    name: str
    rows: list[list[int]]
    steps: np.ndarray
    left: bool = False
    sources: Sources | None = None
    batch: SignalCase | None = None
    images: Sequence[Sequence[PixelInputs]] | None = None


@dataclass(frozen=True)
class GreedyCase:
    """Prompts, or sources of an encoder-decoder, to extend by `new_tokens`, greedily or by beam search.

    `images` are those among the tokens of each prompt.
    """

    name: str
    rows: Sources
    new_tokens: int
    beams: int = BEAMS
    beam_search: bool = False
    images: Sequence[Sequence[PixelInputs]] | None = None


def encoder_cases(
    vocab_size: int,
    segments: int,
    longest: int,
    padding: int | None = None,
    dropped: int | None = None,
    mark: int | None = None,
    alone: bool = True,
    seed: int = 0,
    masks: Mapping[str, np.ndarray] | None = None,
) -> list[EncoderCase]:
    """Batches of 1, 2, 3 and 9 rows; lengths 1, odd and the longest; padding right, left and scattered.

    `masks` (B,S) by the names of cases take the place of these.

    Masked tokens have the id `padding`, or random ids if a model reads the mask only; tokens that are not
    masked never have the id `dropped`. If there is a `mark`, every row ends in it, and also begins with it if
    all rows have two tokens. The rows of a batch have several global tokens, one or none. The cases inherit
    `alone`, except those with padding that is not on the right.
    """
    random = np.random.default_rng(seed)
    cases: list[EncoderCase] = []
    for name, mask in seeded_masks(longest, random) if masks is None else masks.items():
        shape, to_the_right = mask.shape, not (np.diff(mask.astype(int), axis=1) > 0).any()
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
                alone=alone and to_the_right,
            )
        )
    return cases


def _marked(ids: np.ndarray, mask: np.ndarray, mark: int, vocab_size: int) -> np.ndarray:
    """ids (B,S) with the mark as the last real token, and as the first one too if all rows have two.

    Original models require the same number of marks in every row.
    """
    ids = np.where(ids == mark, (ids + 1) % vocab_size, ids)
    rows, last = np.arange(len(ids)), mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
    ids[rows, last] = mark
    if mask.sum(axis=1).min() > 1:
        ids[rows, mask.argmax(axis=1)] = mark
    return ids


def _marks(case: int, mask: np.ndarray) -> np.ndarray:
    """Global tokens of a case, for a mask (B,S): rows have several, none, or the first real token."""
    marks, random = np.zeros(mask.shape, np.int64), np.random.default_rng(case)
    for row, real in enumerate(mask):
        kind = (case + row) % 3
        if kind == 0:
            marks[row] = random.random(len(real)) < 0.3  # padding too, which must have no effect
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
    left_out: int | None = None,
    seed: int = 0,
) -> list[DecoderCase]:
    """Prompts and steps over a growing past.

    `ragged` adds rows of different lengths, `left` left padding. If there is an encoder `source`, each row
    has an input for it, of up to `source_longest` tokens. No row has the encoder's padding id, which some
    original models mask in the decoder too, nor the id `left_out`. `experts` is the number of tokens with
    which each expert is very likely to be picked.
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
    most = source_longest or LONGEST  # the limit of a text encoder
    drawn = [[min(next(lengths), most) for _ in steps[0]] for _, steps, _ in plans]
    many = np.array(MANY if ragged else [5] * len(MANY))
    plans.append(("nine rows, then a step", np.stack([many, np.ones_like(many)]), False))
    drawn.append([min(length, most) for length in MANY])
    if experts:
        rows = -(-experts // min(longest, 64))
        plans.append(("every expert", np.full((1, rows), min(longest, 64)), False))
        drawn.append([min(4, most)] * rows)
    padding = left_out
    if isinstance(source, TextStackSpec):
        padding = source.embedding.position.pad_token_id
    elif source is not None and isinstance(source.embedding, GatedFramesSpec):
        padding = source.embedding.pad_token_id
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


def padded_sources(spec: EncoderDecoderSpec, seed: int = 0) -> DecoderCase:
    """Nine sounds of several lengths that the encoder reads as one batch, and one token of each row.

    Shorter ones are padded with random numbers on the right: the mask must hide them.
    """
    random, source = np.random.default_rng(seed), spec.encoder
    sounds: Sources = input_of(source).rows(source, random, MANY)
    lengths = np.array([len(sound) for sound in sounds])
    mask = np.arange(lengths.max()) < lengths[:, None]
    signals = random.standard_normal((*mask.shape, *np.shape(sounds[0])[1:]), np.float32)
    patches = isinstance(source.embedding, FlattenedPatchesSpec)
    if patches:  # padding has a row and a column too
        signals = np.stack(input_of(source).rows(source, random, [mask.shape[1]] * len(sounds)))
    for signal, sound in zip(signals, sounds, strict=True):
        signal[: len(sound)] = sound
    for kernel, stride in spec.counted:
        lengths = (lengths - kernel) // stride + 1
    real = np.arange(lengths.max()) < lengths[:, None]
    batch = SignalCase("", signals, mask.astype(np.int64), real)
    rows = [_tokens(random, spec.vocab_size, 1, None) for _ in sounds]
    steps = np.ones((1, len(rows)), int)
    name = f"nine {'images' if patches else 'sounds'} in one padded batch"
    return DecoderCase(name, rows, steps, sources=sounds, batch=batch)


def one_row(name: str, vocab_size: int, length: int, seed: int = 0) -> DecoderCase:
    """One row, read in one pass."""
    tokens = _tokens(np.random.default_rng(seed), vocab_size, length, None)
    return DecoderCase(name, [tokens], np.array([[length]]))


def _tokens(random: np.random.Generator, vocab_size: int, count: int, padding: int | None) -> list[int]:
    ids = random.integers(0, vocab_size, count)
    return np.where(ids == padding, (ids + 1) % vocab_size, ids).tolist()


def greedy_cases(
    vocab_size: int, limit: int | None, source: StackSpec | None, seed: int = 0
) -> list[GreedyCase]:
    """Ragged prompts, or inputs of an encoder `source`, to extend by greedy decoding.

    Prompts leave room for at least one token, and sources are within the encoder's limit.
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
    """Beam search over the first two prompts, with no more beams than there are different texts."""
    of_media = prompts.name.replace("greedy", "beams")
    several = "beams, two rows" if prompts.images is None else of_media
    name, new_tokens = several, min(BEAM_TOKENS, prompts.new_tokens)
    beams = min(BEAMS, vocab_size**new_tokens)
    if beams == 1:
        return Skipped(name, "a vocabulary of one token makes no two beams")
    both = replace(prompts, name=name, rows=prompts.rows[:2], new_tokens=new_tokens, beams=beams)
    return replace(both, beam_search=True, images=prompts.images and prompts.images[:2])


def tokens_for_experts(stack: StackSpec) -> int:
    """The number of random tokens that reach each expert of every layer in 999 of 1000 runs; 0 without.

    It is three times the number for equal probabilities, since routers are uneven; a report says how many
    experts were reached.
    """
    kinds = [block.experts for block in stack.layers if block.experts is not None]
    tokens = (3 * kind.num_experts / kind.top_k * log(1000 * kind.num_experts * len(kinds)) for kind in kinds)
    return ceil(max(tokens, default=0))


def generation_cases(
    vocab_size: int, decoder: TextStackSpec, source: StackSpec | None
) -> "Iterator[GreedyCase | Skipped]":
    """Greedy decoding of prompts, or of inputs of an encoder `source`, and beam search over them."""
    for prompts in greedy_cases(vocab_size, decoder.limit, source):
        yield prompts
        yield beam_case(prompts, vocab_size)
