"""Queries that are the top-scoring places of an image: rounding may exchange those of nearly equal scores.

Exchanged queries have each other's outputs, or in Grounding DINO, whose queries are learned for each rank,
other outputs altogether. The reference therefore runs again with the graph's order, as far as its own scores
are equal within rounding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from txexport.verification.bounds import MOST, RELATIVE, size
from txexport.verification.references.originals import Arrays

REACH, ROUNDS = 4, 4  # ranks by which rounding may move a place; computations that are tried


def in_ranks(encode: Callable[[], Arrays], result: Arrays, queries: int) -> Arrays:
    """The reference's outputs (B,Q,...), with places of nearly equal scores in the order of `result`.

    `encode` computes them by PyTorch's topk of (B,P) scores; a reference that does not use it has one order.
    """
    ranks = _Ranks(queries)
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
        if truth is None or truth.shape != array.shape:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.where(array == truth, 0.0, np.abs(array - truth) / size(truth.astype(np.float64)))
        errors = errors.reshape(*errors.shape[:2], -1)  # (B, Q, n)
        wrong = wrong | (np.nan_to_num(errors, nan=np.inf) > MOST).any(axis=2)
    return wrong


class _Ranks(TorchFunctionMode):
    """Makes topk of `queries` places return them in an order that `exchange` has changed."""

    def __init__(self, queries: int):
        super().__init__()
        self.queries = queries
        self.order: np.ndarray | None = None  # (B, C): candidates by rank, more than queries
        self.scores = np.zeros((0, 0))  # (B, C), sorted

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """See TorchFunctionMode."""
        values = kwargs or {}
        result = func(*args, **values)
        if func not in (torch.topk, Tensor.topk):
            return result
        count = args[1] if len(args) > 1 else values.get("k")
        return self._ranked(args[0]) if count == self.queries and args[0].ndim == 2 else result

    def _ranked(self, scores: Tensor) -> Any:
        """values and indices (B,Q) of scores (B,P)."""
        candidates = min(self.queries + REACH, scores.shape[1])
        ranked = scores.sort(dim=1, descending=True, stable=True)
        self.scores = ranked.values[:, :candidates].detach().double().numpy()
        if self.order is None:
            self.order = np.tile(np.arange(candidates), (len(scores), 1))
        by_rank = torch.from_numpy(self.order[:, : self.queries])
        indices = ranked.indices.gather(1, by_rank)
        return torch.return_types.topk((scores.gather(1, indices), indices))

    def exchange(self, wrong: np.ndarray) -> bool:
        """Exchange wrong queries (B,Q) with others of nearly equal scores; tell whether there were any."""
        changed = False
        for row, order in enumerate(self.order if self.order is not None else ()):
            scores = self.scores[row][order]
            near = 2 * RELATIVE * np.abs(scores[: self.queries]).mean()  # float32's error of two scores
            free = np.append(wrong[row], np.ones(len(order) - self.queries, bool))  # what is left out too
            for one in np.flatnonzero(wrong[row]).tolist():
                for other in range(one + 1, min(one + REACH, len(order))):
                    if free[one] and free[other] and abs(scores[one] - scores[other]) <= near:
                        order[[one, other]] = order[[other, one]]
                        free[one] = free[other] = False
                        changed = True
        return changed
