"""A cache of traces, which depend on a model, on the inputs of the trace and on its free axes alone."""

import hashlib
from collections.abc import Callable
from typing import Any

import torch

from helpers.kept_originals import digest
from txexport.verification.traced.originals import Original


class KeptTraces:
    """Graphs by the function that traced them, and its arguments; no test may change them."""

    def __init__(self) -> None:
        self.known: dict[tuple, Any] = {}

    def of(self, trace: Callable) -> Callable:
        """The function, which traces equal arguments once."""

        def traced(original: Original, *arguments: Any) -> Any:
            key = (trace.__name__, original.architecture, _weights(original.model), digest(arguments))
            if key not in self.known:
                self.known[key] = trace(original, *arguments)
            return self.known[key]

        return traced


def _weights(model: torch.nn.Module) -> str:
    """A digest of a model's config and of its state."""
    state = hashlib.sha256(model.config.to_json_string().encode())
    for name, tensor in model.state_dict().items():
        state.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return state.hexdigest()
