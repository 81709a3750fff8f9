"""Accuracy loss of a number format: the graphs with rounded activations against the original in float32.

Other cases prove without rounding that the numbers are right. A loss is a share from 0 (none) to 1, and has a
budget; a bundle over budget is not equal.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from txexport.contracts.meaning import Kind, Meaning
from txexport.errors import InputError
from txexport.verification.agreement import RANKED, best_of, rows
from txexport.verification.checks import DIRECTION, PROBABILITY, TensorCheck

if TYPE_CHECKING:
    from txexport.verification.cases.graph_runner import GraphRunner
    from txexport.verification.cases.plan import PlannedCase
    from txexport.verification.references.reference import Reference

CHOICE = "choice"  # the share of rows with another best score
RANKS = "ranks"  # the share of the ten best scores that differ
ANY = 1.0  # reported; it has a budget only if the user sets one

# On real texts: see `text_losses`.
PERPLEXITY = "perplexity"
TOKENS = "tokens"
COSINE = "cosine"
NEIGHBOURS = "neighbours"
ANSWERS = "answers"
OF_TEXTS = {
    PERPLEXITY: "the increase, as a share of the original's",
    TOKENS: "the share of greedy tokens from the first difference on",
    COSINE: "1 - cosine of vectors, on average",
    NEIGHBOURS: "the share of each vector's ten nearest neighbours that are others",
    ANSWERS: "the share of best answers, or of entities, that are others",
}

# By dtype: the first four on random inputs, the others on real texts, if these are given.
BUDGETS = {
    dtype: {DIRECTION: direction, PROBABILITY: probability, CHOICE: ANY, RANKS: ANY}
    | {PERPLEXITY: perplexity, TOKENS: ANY, COSINE: direction, NEIGHBOURS: ANY, ANSWERS: ANY}
    for dtype, direction, probability, perplexity in (
        ("float16", 1e-4, 1e-2, 0.01),
        ("bfloat16", 1e-3, 5e-2, 0.02),
        ("stored", 0.02, 0.1, 0.05),
        ("stored-fast", 0.02, 0.1, 0.05),
        ("int8", 0.02, 0.1, 0.05),
        ("int8-fast", 0.05, 0.2, 0.1),
        ("int4", 0.15, 0.3, 0.25),
        ("int4-fast", 0.15, 0.3, 0.25),
        ("int4-128", 0.2, 0.4, 0.4),
        ("int4-128-fast", 0.2, 0.4, 0.4),
    )
}


def budgets_of(dtype: str, own: Mapping[str, float], texts: bool) -> dict[str, float]:
    """The budgets of a dtype, updated with the user's own.

    Raises InputError for an unknown name, or for a budget on texts without texts.
    """
    known = BUDGETS[dtype]
    for name, share in own.items():
        if name not in known:
            raise InputError(f"budget '{name}' is not known; expected {', '.join(known)}")
        if not 0 <= share <= 1:
            raise InputError(f"budget {name} is {share}, expected a share from 0 to 1")
        if name in OF_TEXTS and not texts:
            raise InputError(f"budget {name} is for losses on texts; give a file of texts")
    return known | dict(own)


def lost(
    runner: "GraphRunner",
    planned: "Iterable[PlannedCase]",
    original: "Reference",
    budgets: Mapping[str, float],
) -> list[TensorCheck]:
    """The mean losses of each output over all cases: a check for each measure."""
    shares: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for case in planned:
        assert case.run is not None
        for outcome in case.run(runner, original, case.case):
            meaning = runner.meaning(outcome.output)
            for found, expected in outcome.pairs if meaning.kind is not Kind.NUMBERS else ():
                for measure, share in _measured(found, expected, meaning).items():
                    shares[outcome.output, measure].append(share)
    checks = []
    for (output, measure), parts in shares.items():
        share = np.concatenate(parts)
        checks.append(TensorCheck(f"{output}: {measure}", share.size, float(share.mean()), budgets[measure]))
    return checks


def _measured(found: np.ndarray, expected: np.ndarray, meaning: Meaning) -> dict[str, np.ndarray]:
    """The share lost of each row, by measure; rows that are not finite are lost entirely."""
    if found.shape != expected.shape or not expected.size:
        return {}
    ours, truth = rows(found, meaning), rows(expected, meaning)
    if truth.shape[1] == 1:
        return {}
    finite = np.isfinite(ours).all(axis=1)
    ours, truth = (np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=-1e9) for array in (ours, truth))
    if meaning.kind is not Kind.SCORES:
        result = {DIRECTION: _apart(ours, truth)}
    else:
        count = min(RANKED, truth.shape[1])
        best, expected_best = best_of(ours, count), best_of(truth, count)
        shared = (best[:, :, None] == expected_best[:, None, :]).any(axis=2).mean(axis=1)
        moved = np.abs(_probabilities(ours) - _probabilities(truth)).sum(axis=1) / 2
        other = (best[:, 0] != expected_best[:, 0]).astype(float)
        result = {PROBABILITY: moved, CHOICE: other, RANKS: 1 - shared}
    return {name: np.where(finite, share, 1.0) for name, share in result.items()}


def _probabilities(scores: np.ndarray) -> np.ndarray:
    """Softmax of scores (R,V)."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _apart(ours: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """1 - cosine of rows (R,W); 0 where both are zero."""
    sizes = np.linalg.norm(ours, axis=1) * np.linalg.norm(truth, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = np.where(sizes > 0, (ours * truth).sum(axis=1) / sizes, (ours == truth).all(axis=1))
    return (1 - cosines).clip(0, 1)
