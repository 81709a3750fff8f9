"""A checkpoint with the numbers that a number format keeps of it, as weights of references."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from txexport.bundle.form import ExportOptions
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_resolution import Weight
from txexport.exporter.bundle_plan import DtypePlan
from txexport.families import Resolved
from txexport.formats import kept
from txexport.formats.int8 import about_middles
from txexport.verification.calibrated import plan_of


def dequantised_checkpoint(
    folder: Path, checkpoint: Checkpoint, resolved: Resolved, form: ExportOptions, dtype: str
) -> "DequantisedCheckpoint":
    """The checkpoint as the bundle in `folder` stores it in a dtype, back in float32."""
    return DequantisedCheckpoint(checkpoint, plan_of(folder, checkpoint, resolved, form).dtypes[dtype])


class DequantisedCheckpoint(Checkpoint):
    """Every tensor after rounding to a dtype, in float32; `formats` are the number formats by parameter."""

    def __init__(self, original: Checkpoint, plan: DtypePlan):
        vars(self).update(vars(original))
        self._original, self.formats = original, plan.formats | plan.calibrated
        self._parameters: dict[str, list[tuple[str, Weight]]] = defaultdict(list)  # by tensor
        for name, weight in plan.weights.items():
            if not plan.formats[name].lossless:
                for tensor in (*weight.tensors, *weight.joined):
                    self._parameters[tensor].append((name, weight))

    @property
    def centred(self) -> bool:
        """True if some products subtract the middle of each row of activations."""
        return any(number_format.rounding is about_middles for number_format in self.formats.values())

    @property
    def quantised(self) -> bool:
        """True, so that references read the numbers from here."""
        return True

    def rows(self, name: str, number: int | None = None) -> Iterator[np.ndarray]:
        """See Checkpoint. A rounded tensor, or its part of one expert, comes in one piece."""
        if name not in self._parameters:
            yield from self._original.rows(name, number)
            return
        tensor = np.array(self._original.read(name, number))
        for parameter, weight in self._parameters[name]:
            take = weight.take
            if number in (None, take.number):
                part = take.own(tensor) if number is None else tensor
                numbers = take.cut(part)
                take.paste(part, kept(self.formats[parameter], [numbers], numbers.shape))
        yield tensor
