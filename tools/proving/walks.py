"""Cases of decoders that no seeded case has: any mask of a prompt, and going back."""

from dataclasses import dataclass

import numpy as np

from txexport.parts.cases import DecoderCase
from txexport.verification.cases.crossed_pictures import crosses_images, run_crossed
from txexport.verification.cases.decoder_steps import DynamicSteps, StaticSteps, Steps
from txexport.verification.cases.embedded_steps import steps_of
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.pictures import source_images
from txexport.verification.cases.runs import Outcome, by_graph, pair_caches, pair_step
from txexport.verification.cases.sources import RolePairs, prompt_of, run_sources, source_of
from txexport.verification.references.reference import Arrays, Reference

LATER = 2  # tokens after a masked prompt, one a step


@dataclass(frozen=True)
class MaskedPrompt:
    """Prompts (B,S) with a mask, then a few tokens one by one; `case.rows` are all real tokens."""

    case: DecoderCase
    mask: np.ndarray


@dataclass(frozen=True)
class Rewind:
    """Rows that are read, taken `back` to a number of tokens each, and continued as `case.rows` in pieces.

    `first` are the rows that are read at first.
    """

    case: DecoderCase
    first: list[list[int]]
    back: np.ndarray
    pieces: tuple[int, ...]


def run_masked(runner: GraphRunner, reference: Reference, walk: MaskedPrompt) -> list[Outcome]:
    """Logits of every real token and the caches, beside one pass of each row without padding."""
    case, mask = walk.case, walk.mask
    pairs: RolePairs = {}
    expected = _expected(reference, case, case.rows)
    for steps in steps_of(runner, case, _cross(runner, case, expected, pairs)):
        if not isinstance(steps, DynamicSteps):
            continue
        counts = mask.sum(axis=1)
        new = [row[:count] for row, count in zip(case.rows, counts, strict=True)]
        ids = np.full(mask.shape, case.rows[0][-1])
        ids[mask] = np.concatenate(new)
        taken = np.zeros(len(new), int)
        taken += pair_step(steps, steps.read(ids, mask.astype(np.int64), new), expected, taken, pairs)
        for _ in range(LATER):
            one = [[row[done]] for row, done in zip(case.rows, taken, strict=True)]
            taken += pair_step(steps, steps.run(one), expected, taken, pairs)
        pair_caches(steps, expected, reference, pairs)
    return by_graph(runner, pairs)


def run_rewind(runner: GraphRunner, reference: Reference, walk: Rewind) -> list[Outcome]:
    """Logits of every token before and after, and the caches, beside one pass of each row."""
    case = walk.case
    pairs: RolePairs = {}
    before = _expected(reference, case, walk.first)
    expected = _expected(reference, case, case.rows)
    for steps in steps_of(runner, case, _cross(runner, case, expected, pairs)):
        pair_step(steps, steps.run(walk.first), before, np.zeros(len(case.rows), int), pairs)
        rewind(steps, walk.back)
        taken = walk.back.copy()
        for count in walk.pieces:
            new = [row[done : done + count] for row, done in zip(case.rows, taken, strict=True)]
            taken += pair_step(steps, steps.run(new), expected, taken, pairs)
        pair_caches(steps, expected, reference, pairs)
    return by_graph(runner, pairs)


def _expected(reference: Reference, case: DecoderCase, rows: list[list[int]]) -> list[Arrays]:
    return [
        reference.decode(row, source_of(case, place), prompt_of(case, place))
        for place, row in enumerate(rows)
    ]


def _cross(runner: GraphRunner, case: DecoderCase, expected: list[Arrays], pairs: RolePairs) -> Arrays:
    """The inputs of the decoder that an encoder gives."""
    if crosses_images(runner):
        return run_crossed(runner, case, expected, pairs)
    if not case.sources:
        return {}
    return run_sources(runner, case, expected, pairs, source_images(runner, case, expected, pairs))


def rewind(steps: Steps, back: np.ndarray) -> None:
    """Go back to `back` tokens of each row; a cache that grows is cut to the longest of them.

    The rows of one that grows must go back to the same token.
    """
    length = int(back.max())
    steps.mask = (np.arange(length) < back[:, None]).astype(np.int64)
    steps.lengths = back.astype(np.int64)
    if not isinstance(steps, StaticSteps):
        steps.past = {name: array[:, :, :length] for name, array in steps.past.items()}
