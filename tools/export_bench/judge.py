"""The judge of an entry: the original in transformers, output by output, at stated inputs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from export_bench.runs import Case, actual, expected

EQUAL = 2e-5  # of an output's largest number: a right export differs by less, which float32 rounding explains
WRONG = 1e-4  # and a wrong one by more, at the input that shows it


@dataclass(frozen=True)
class Difference:
    """The largest difference of one output, as a part of the original's largest number; or what failed."""

    output: str
    part: float
    why: str = ""


def difference(checkpoint_model: Any, folder: Path, kind: str, case: Case) -> Difference:
    """The largest difference of an export from the original on a case; infinite where it cannot run."""
    wanted = expected(checkpoint_model, kind, case)
    try:
        outputs = actual(folder, kind, case, checkpoint_model.config)
    except Exception as error:  # onnxruntime's, of many classes
        return Difference("", np.inf, " ".join(str(error).split())[:200])
    worst = Difference("", 0.0)
    shared = [name for name in wanted.arrays if name in outputs.arrays]
    if not shared:
        return Difference("", np.inf, f"no output of {list(outputs.arrays)} is the original's")
    for name in shared:
        part = _part(name, wanted.arrays[name], wanted.real[name], outputs.arrays[name])
        worst = max(worst, part, key=lambda one: one.part)
    return worst


def _part(name: str, wanted: np.ndarray, real: np.ndarray, array: np.ndarray) -> Difference:
    if name.startswith("present"):  # an original with a window keeps the last keys only
        array = array[:, :, array.shape[2] - wanted.shape[2] :]
    if array.shape != wanted.shape:
        return Difference(name, np.inf, f"{name} is {array.shape}, the original's {wanted.shape}")
    if not real.any():
        return Difference(name, 0.0)
    apart = np.abs(array.astype(np.float64) - wanted)[real]
    if not np.isfinite(apart).all():
        return Difference(name, np.inf, f"{name} is not finite")
    return Difference(name, float(apart.max() / max(np.abs(wanted[real]).max(), 1e-30)))
