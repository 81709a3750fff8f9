"""Queries that are the top-scoring places of an image: rounding may exchange those of nearly equal scores.

Exchanged queries have each other's outputs, or in Grounding DINO, whose queries are learned for each rank,
other outputs altogether. The reference therefore runs again with the graph's order, as far as its own scores
are equal within rounding.
"""

import sys
from collections.abc import Callable

import numpy as np

from txexport.contracts.layer_outputs import kind_of
from txexport.verification.bounds import MOST, size
from txexport.verification.references.reference import Arrays

ROUNDS = 4  # computations that are tried


def in_ranks(encode: Callable[[], Arrays], result: Arrays, queries: int) -> Arrays:
    """The reference's outputs (B,Q,...), with places of nearly equal scores in the order of `result`.

    `encode` computes them by PyTorch's topk of (B,P) scores; a reference that does not use it has one order.
    """
    if "torch" not in sys.modules:  # then no reference ranks by it
        return encode()
    from txexport.verification.cases.topk import Ranks

    ranks = Ranks(queries)
    with ranks:
        expected = encode()
    for _ in range(ROUNDS):
        if not ranks.exchange(_wrong(result, expected, queries)):
            break
        with ranks:
            expected = encode()
    return expected


def _wrong(result: Arrays, expected: Arrays, queries: int) -> np.ndarray:
    """True for the queries (B,Q) that differ by more than rounding explains."""
    wrong = np.zeros((1, queries), bool)
    for name, array in result.items():
        truth = expected.get(name)
        if truth is None or truth.shape != array.shape or kind_of(name) is not None:  # of a layer: no queries
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.where(array == truth, 0.0, np.abs(array - truth) / size(truth.astype(np.float64)))
        errors = errors.reshape(*errors.shape[:2], -1)  # (B, Q, n)
        wrong = wrong | (np.nan_to_num(errors, nan=np.inf) > MOST).any(axis=2)
    return wrong
