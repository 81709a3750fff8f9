"""A checkpoint with the numbers that a number format keeps of it, for originals to compute with."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from txexport.bundle.manifest import ExportOptions
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_resolution import Weight
from txexport.exporter.bundle_plan import DtypePlan
from txexport.families import Resolved
from txexport.formats import kept
from txexport.formats.int8 import about_middles
from txexport.verification.calibrated import plan_of


def kept_in(
    folder: Path, checkpoint: Checkpoint, resolved: Resolved, form: ExportOptions, dtype: str
) -> "Kept":
    """The checkpoint with the numbers that the bundle in `folder`, of that form, keeps of it in a dtype."""
    return Kept(checkpoint, plan_of(folder, checkpoint, resolved, form).dtypes[dtype])


class Kept(Checkpoint):
    """Every tensor with the numbers that graphs of a dtype compute with, float32; `formats` by parameter."""

    def __init__(self, whole: Checkpoint, plan: DtypePlan):
        vars(self).update(vars(whole))
        self._whole, self.formats = whole, plan.formats | plan.calibrated
        self._fills: dict[str, list[tuple[str, Weight]]] = defaultdict(list)
        for name, weight in plan.weights.items():
            if not plan.formats[name].lossless:
                for tensor in weight.tensors:
                    self._fills[tensor].append((name, weight))

    @property
    def centred(self) -> bool:
        """Tell whether some products take the middle off what they multiply."""
        return any(one.rounding is about_middles for one in self.formats.values())

    @property
    def quantised(self) -> bool:
        """That originals must take the numbers from here."""
        return True

    def rows(self, name: str, number: int | None = None) -> Iterator[np.ndarray]:
        """See Checkpoint: the whole tensor, or its expert's part, at once where it is stored otherwise."""
        if name not in self._fills:
            yield from self._whole.rows(name, number)
            return
        tensor = np.array(self._whole.read(name, number))
        for parameter, weight in self._fills[name]:
            take = weight.take
            if number in (None, take.number):
                part = take.own(tensor) if number is None else tensor
                numbers = take.cut(part)
                take.paste(part, kept(self.formats[parameter], [numbers], numbers.shape))
        yield tensor
