"""4-bit integers calibrated on texts (GPTQ), and read from a bundle."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx

from txexport.bundle.form import Calibration
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.calibration import Moments, Reading, Tell, sha256_of
from txexport.exporter.weight_file import WeightFile
from txexport.formats import Integers
from txexport.formats.gptq import calibrated, feedback
from txexport.formats.number_format import packed
from txexport.inspection.graph_stats import initializers
from txexport.runtime.preprocessing.text import Item

FEWEST = 1 / 16  # vectors that a calibration needs, relative to the number of a matrix's inputs


class Chosen(NamedTuple):
    """The integers (out,in) of a matrix of float32 `rows` (out,in), None if those of the search are better.

    `factor` is that of the error feedback, `block` the inputs of a block.
    """

    dtype: str
    name: str
    rows: np.ndarray
    factor: np.ndarray
    block: int
    integers: np.ndarray | None


class Calibrating:
    """Calibration of the matrices of some `dtypes` of a plan; their integers are kept in `folder`."""

    def __init__(self, checkpoint: Checkpoint, plan: BundlePlan, dtypes: Iterable[str], folder: Path):
        self.checkpoint, self.plan, self.folder = checkpoint, plan, folder
        self.matrices = {dtype: dict(plan.dtypes[dtype].int4.values()) for dtype in dtypes}
        self.made: dict[tuple[str, str], Path] = {}

    def run(self, float32: Path, items: Sequence[Item], tell: Tell) -> dict[str, Calibration]:
        """Run the float32 bundle in a folder on the texts; returns the Calibration of each dtype.

        Raises InputError for texts that the model does not read.
        """
        reading = Reading(float32, self.plan.spec, items, matrices_of(self.plan, self.matrices))
        for moments in reading.moments(tell):
            self._calibrate(moments)
        digest = sha256_of(items)
        return {
            dtype: Calibration(
                len(items), reading.tokens, digest, [name for name in of if (dtype, name) not in self.made]
            )
            for dtype, of in self.matrices.items()
        }

    def chosen(self, moments: Moments) -> Iterator[Chosen]:
        """The calibrated integers of the matrices with these moments; none if there are too few vectors."""
        if moments.rows < FEWEST * len(moments.numbers):
            return
        try:
            factor = feedback(moments.numbers)
        except np.linalg.LinAlgError:  # activations are beyond float32
            return
        for name in moments.names:
            rows = np.concatenate([*self.plan.weights[name].rows(self.checkpoint)])
            for dtype, of in self.matrices.items():
                if name in of:
                    block = of[name].block
                    integers = calibrated(rows, moments.numbers, factor, block)
                    yield Chosen(dtype, name, rows, factor, block, integers)

    def _calibrate(self, moments: Moments) -> None:
        """Keep the integers of the matrices with these moments."""
        for one in self.chosen(moments):
            if one.integers is not None:
                path = self.made[one.dtype, one.name] = self.folder / f"{len(self.made)}.integers"
                packed(one.integers.T).tofile(path)

    def integers(self, dtype: str, name: str) -> np.ndarray:
        """See Integers: the calibrated ones."""
        return np.fromfile(self.made[dtype, name], np.uint8)


def matrices_of(plan: BundlePlan, dtypes: Iterable[str]) -> dict[str, tuple]:
    """The 4-bit matrices: each by its first name, with the value that its names share."""
    firsts = {first for dtype in dtypes for first, _ in plan.dtypes[dtype].int4.values()}
    return {name: weight.key for name, weight in plan.weights.items() if name in firsts}


def integers_of(folder: Path, plan: BundlePlan) -> Integers:
    """A reader of a bundle's integers; `plan` may lack the calibrated ones.

    Missing bytes are read as 0, which verify reports.
    """

    def read(dtype: str, name: str) -> np.ndarray:
        key = plan.weights[name].key
        for file in plan.dtypes[dtype].data.values():
            for other, weight in file.weights.items():
                if weight.key == key:
                    part = file.names(other)[""]
                    size = file.parts[part].nbytes
                    if plan.options.single_file:
                        content = _inside(folder, plan, dtype, file, part)
                    else:
                        with (folder / file.path).open("rb") as stream:
                            stream.seek(file.offsets[part])
                            content = stream.read(size)
                    return np.frombuffer(content[:size].ljust(size, b"\0"), np.uint8)
        raise KeyError(name)

    return read


def _inside(folder: Path, plan: BundlePlan, dtype: str, file: WeightFile, part: str) -> bytes:
    """The bytes of a part that a graph of this dtype embeds; empty if none does."""
    for graph in plan.dtypes[dtype].graphs:
        for tensor in initializers(onnx.load(folder / graph.path).graph):
            if file.part_of(tensor.name) == part:
                return bytes(tensor.raw_data)
    return b""
