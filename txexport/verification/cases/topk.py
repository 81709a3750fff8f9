"""PyTorch's topk with places of nearly equal scores in an order that can be changed."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from txexport.verification.bounds import RELATIVE

REACH = 4  # ranks by which rounding may move a place


class Ranks(TorchFunctionMode):
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
