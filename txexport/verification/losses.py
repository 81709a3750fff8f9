"""What a number format loses: the graphs as they are, activations rounded, beside the original in float32.

That the numbers are right is shown without rounding. These say what the format itself costs: each is a share
of what could be lost, 0 of nothing, and has a budget, beyond which a bundle is not equal.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from txexport.contracts.names import LOGITS
from txexport.errors import InputError
from txexport.verification.agreement import RANKED, VECTORS, best_of
from txexport.verification.checks import DIRECTION, PROBABILITY, TensorCheck

if TYPE_CHECKING:
    from txexport.verification.cases.graph_runner import GraphRunner
    from txexport.verification.cases.plan import Planned
    from txexport.verification.references.originals import Reference

CHOICE = "choice"  # of the best score: the share of rows that choose another
RANKS = "ranks"  # of the ten best: the share that another is in the place of
ANY = 1.0  # what is told, and judged by nobody who does not ask

# Of real texts: see `text_losses`.
PERPLEXITY = "perplexity"
TOKENS = "tokens"
COSINE = "cosine"
NEIGHBOURS = "neighbours"
ANSWERS = "answers"
OF_TEXTS = {
    PERPLEXITY: "how much larger it is, as a share of the original's",
    TOKENS: "of greedy tokens, the share from the first difference on",
    COSINE: "1 - cosine of vectors, on average",
    NEIGHBOURS: "of each vector's ten nearest others, the share that are not those of the original",
    ANSWERS: "the share of best answers, or of entities, that are others",
}

# By dtype: the first four on random inputs, the others on real texts, where these are given.
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
    """The budgets of a dtype, with those of one's own.

    Raises InputError for one that is not known, or that is for texts where none are given.
    """
    known = BUDGETS[dtype]
    for name, share in own.items():
        if name not in known:
            raise InputError(f"budget '{name}' is not known; expected {', '.join(known)}")
        if not 0 <= share <= 1:
            raise InputError(f"budget {name} is {share}, expected a share from 0 to 1")
        if name in OF_TEXTS and not texts:
            raise InputError(f"budget {name} is for what is lost on texts; give a file of them")
    return known | dict(own)


def lost(
    runner: "GraphRunner",
    planned: "Iterable[Planned]",
    original: "Reference",
    budgets: Mapping[str, float],
) -> list[TensorCheck]:
    """What graphs lose of each output over all cases: a check a measure, whose error is the share."""
    shares: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for case in planned:
        assert case.run is not None
        for outcome in case.run(runner, original, case.case):
            scores = LOGITS in outcome.output
            if scores or any(name in outcome.output for name in VECTORS):
                for found, expected in outcome.pairs:
                    for measure, share in _measured(found, expected, scores).items():
                        shares[outcome.output, measure].append(share)
    checks = []
    for (output, measure), each in shares.items():
        every = np.concatenate(each)
        checks.append(TensorCheck(f"{output}: {measure}", every.size, float(every.mean()), budgets[measure]))
    return checks


def _measured(found: np.ndarray, expected: np.ndarray, scores: bool) -> dict[str, np.ndarray]:
    """What is lost of each row of the last axis, by measure; what is not finite is lost whole."""
    if found.shape != expected.shape or not expected.size or expected.shape[-1:] == (1,):
        return {}
    rows, truth = (array.reshape(-1, array.shape[-1]).astype(np.float64) for array in (found, expected))
    finite = np.isfinite(rows).all(axis=1)
    rows, truth = (np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=-1e9) for array in (rows, truth))
    if not scores:
        result = {DIRECTION: _apart(rows, truth)}
    else:
        count = min(RANKED, truth.shape[1])
        ours, theirs = (best_of(array, count) for array in (rows, truth))
        shared = (ours[:, :, None] == theirs[:, None, :]).any(axis=2).mean(axis=1)
        moved = np.abs(_probabilities(rows) - _probabilities(truth)).sum(axis=1) / 2
        other = (ours[:, 0] != theirs[:, 0]).astype(float)
        result = {PROBABILITY: moved, CHOICE: other, RANKS: 1 - shared}
    return {name: np.where(finite, share, 1.0) for name, share in result.items()}


def _probabilities(scores: np.ndarray) -> np.ndarray:
    """Scores (R,V) as probabilities."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _apart(rows: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """1 - cosine of rows (R,W); 0 where both have no direction."""
    sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(truth, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = np.where(sizes > 0, (rows * truth).sum(axis=1) / sizes, (rows == truth).all(axis=1))
    return (1 - cosines).clip(0, 1)
