"""Queries that are ranked by scores: rounding may exchange those whose scores are nearly equal.

Layers over queries do not see their order, so the outputs of exchanged queries are exchanged alike.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from txexport.contracts.names import PRED_BOXES

REACH = 4  # places by which rounding may move a query


def ranks_queries(spec: Mapping[str, Any]) -> bool:
    """Tell whether a manifest's spec is of a stack that ranks the places of an image."""
    stack = spec.get("encoder")
    return isinstance(stack, Mapping) and stack.get("type") == "proposals"


def in_order(outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The expected outputs (B,Q,...) with queries in the graph's order, which differs by REACH at most.

    Each of the graph's queries is compared with the most similar of those near its place, and none with two.
    """
    vectors, truth = _vectors(outputs), _vectors(expected)  # (B, Q, labels + 4)
    if vectors.shape != truth.shape:
        return dict(expected)
    order = np.array([_order(*pair) for pair in zip(vectors, truth, strict=True)])  # (B, Q)
    return {name: np.take_along_axis(array, order[:, :, None], axis=1) for name, array in expected.items()}


def _vectors(outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Scores and boxes of each query, boxes last."""
    names = sorted(outputs, key=lambda name: name == PRED_BOXES)
    return np.concatenate([outputs[name] for name in names], axis=2)


def _order(vectors: np.ndarray, truth: np.ndarray) -> list[int]:
    """For each of the vectors (Q,n), the place of the most similar of `truth` (Q,n) that is not taken."""
    free, result = list(range(len(truth))), []
    for place, vector in enumerate(vectors):
        near = [one for one in free if abs(one - place) <= REACH] or free[:1]
        if near[0] <= place - REACH:
            near = near[:1]  # the last place that may have it
        best = near[int(np.abs(truth[near] - vector).max(axis=1).argmin())]
        free.remove(best)
        result.append(best)
    return result
