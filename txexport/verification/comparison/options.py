"""The options of a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from txexport.verification.comparison.inputs import Choices


@dataclass(frozen=True)
class CompareOptions:
    """The normalised options of `compare`."""

    inputs: Sequence[str | Path | Mapping[str, np.ndarray]] = ()
    match: Mapping[str, str] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    choices: Choices = field(default_factory=Choices)
    tolerance: float | None = None
    cases: str | Sequence[str] = "full"
    device: str = "cpu"
