"""What verify found, and how near is near enough."""

import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

# The largest error allowed, absolute or relative to the reference, whichever is larger: float32 sums in
# another order differ by some 1e-7 of the largest term, and layers add that up. Models under a million
# parameters are held to the tighter bound.
REAL, TINY = 1e-4, 1e-5
TINY_PARAMETERS = 1_000_000


def tolerance(parameters: int) -> float:
    """The bound for a float32 model of that many parameters."""
    return TINY if parameters < TINY_PARAMETERS else REAL


@dataclass(frozen=True)
class TensorCheck:
    """One output over one case: the largest error of `elements` numbers, all those that are not padding."""

    output: str
    elements: int
    error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether every number is within tolerance; none compared is not."""
        return self.elements > 0 and self.error <= self.tolerance


@dataclass(frozen=True)
class CaseReport:
    """One case against one reference: its checks, or the exception that ended it, or why it was not tried.

    An exception is a failure. The contents of a bundle are held against the checkpoint itself.
    """

    name: str
    reference: str
    checks: list[TensorCheck] = field(default_factory=list)
    exception: str | None = None
    skipped: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every check passed; a case without checks passes only if it says why."""
        if self.skipped is not None:
            return True
        return self.exception is None and bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def worst(self) -> TensorCheck | None:
        """The check with the largest error."""
        return max(self.checks, key=lambda check: check.error, default=None)


@dataclass(frozen=True)
class Report:
    """All cases of one bundle in one runtime."""

    bundle: str
    model_type: str
    task: str
    runtime: str
    versions: dict[str, str]
    cases: list[CaseReport]

    @property
    def references(self) -> list[str]:
        """What the bundle was held against, each at least once."""
        return list(dict.fromkeys(case.reference for case in self.cases if case.skipped is None))

    @property
    def failed(self) -> list[CaseReport]:
        """The cases that failed."""
        return [case for case in self.cases if not case.ok]

    @property
    def ok(self) -> bool:
        """Whether at least one case ran and none failed."""
        return all(case.ok for case in self.cases) and any(case.checks for case in self.cases)

    def to_dict(self) -> dict:
        """Plain JSON values; an error that is not finite becomes null, with `ok` false."""
        values = dataclasses.asdict(self)
        values["ok"] = self.ok
        for case, record in zip(self.cases, values["cases"], strict=True):
            record["ok"] = case.ok
            for check, entry in zip(case.checks, record["checks"], strict=True):
                entry["ok"] = check.ok
                entry["error"] = check.error if math.isfinite(check.error) else None
        return values

    def write_json(self, path: Path) -> None:
        """Write the report to a file."""
        path.write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")


def compare(output: str, pairs: Iterable[tuple[np.ndarray, np.ndarray]], bound: float) -> TensorCheck:
    """One check over pairs of (found, expected), padding already left out.

    A shape that differs and a number that is not finite are an infinite error.
    """
    elements, worst = 0, 0.0
    for found, expected in pairs:
        elements += expected.size
        if found.shape != expected.shape:
            worst = math.inf
        elif expected.size:
            wide = expected.astype(np.float64)
            with np.errstate(invalid="ignore"):
                errors = np.abs(found - wide) / np.maximum(1.0, np.abs(wide))
            errors[found == expected] = 0.0
            worst = max(worst, float(np.nan_to_num(errors, nan=math.inf, posinf=math.inf).max()))
    return TensorCheck(output, elements, worst, bound)
