"""The components whose numbers a narrower type cannot represent."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import nn


class Overflow:
    """Hooks on the components of a twin in float32 that record the largest number each one gives."""

    def __init__(self, model: nn.Module):
        self.largest: dict[str, float] = {}  # by component, in the order of the computation
        for name, module in model.named_modules():
            if name:
                module.register_forward_hook(lambda _module, _inputs, out, name=name: self._note(name, out))

    def _note(self, name: str, out: object) -> None:
        for tensor in _tensors(out):
            if tensor.dtype == torch.float32 and tensor.numel():
                # What a mask hides is the smallest number of float32, or infinite.
                sizes = tensor.detach().abs()
                sizes = sizes[sizes < np.finfo(np.float32).max / 4]
                largest = sizes.max().item() if sizes.numel() else 0.0
                self.largest[name] = max(self.largest.get(name, 0.0), largest)


def _tensors(out: object) -> Iterable[torch.Tensor]:
    """The tensors of a component's output."""
    if isinstance(out, torch.Tensor):
        yield out
    elif isinstance(out, tuple | list):
        for one in out:
            yield from _tensors(one)
