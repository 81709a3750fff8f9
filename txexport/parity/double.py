"""The twin in float64, which tells rounding from error."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from txexport.checkpoint import Checkpoint
from txexport.families import Resolved
from txexport.parity.plan import Planned
from txexport.parity.references import Arrays, Source, Twin
from txexport.parity.report import TensorCheck, compare


class Double(Twin):
    """The twin computing in float64, beside itself in float32.

    What both bundle and float32 are off by is float32's own rounding; what the bundle alone is off by is an
    error.
    """

    name = "float64"

    def __init__(self, checkpoint: Checkpoint, resolved: Resolved):
        super().__init__(checkpoint, resolved)
        self.single = Twin(checkpoint, resolved)
        self.model.double()
        self._rounding: dict[str, float] = {}

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        wide = {
            name: array.astype(np.float64) if array.dtype == np.float32 else array
            for name, array in inputs.items()
        }
        with _in_double():
            outputs = super().encode(wide)
        self._keep(self.single.encode(inputs), outputs, inputs.get("attention_mask"))
        return outputs

    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference."""
        wide = source.astype(np.float64) if isinstance(source, np.ndarray) else source
        with _in_double():
            outputs = super().decode(tokens, wide)
        self._keep(self.single.decode(tokens, source), outputs, None)
        return outputs

    def through(self, planned: Sequence[Planned]) -> list[Planned]:
        """The cases, whose checks then say what float32 alone is off by."""
        return [
            case if case.run is None else replace(case, run=partial(self._run, case.run)) for case in planned
        ]

    def _run(self, run: Callable[..., list[TensorCheck]], *arguments: Any) -> list[TensorCheck]:
        self._rounding = {}
        checks = run(*arguments)
        return [replace(check, rounding=self._rounding.get(check.output)) for check in checks]

    def _keep(self, single: Arrays, double: Arrays, mask: np.ndarray | None) -> None:
        """The largest error of each output in float32, padding left out where an output is by token."""
        for name, array in double.items():
            found, expected = single[name], array
            if mask is not None and array.shape[:2] == mask.shape:
                found, expected = found[mask.astype(bool)], array[mask.astype(bool)]
            error = compare(name, [(found, expected)], 0.0).error
            self._rounding[name] = max(error, self._rounding.get(name, 0.0))


@contextmanager
def _in_double() -> Iterator[None]:
    """Numbers that the twin makes itself, as rotations are, in float64 too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
