"""The weights file of a bundle, into which graphs point: a safetensors file for other tools too."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from txexport.bundle import WEIGHTS
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_map import Weight
from txexport.progress import Progress

FLOAT = 4  # bytes


class WeightFile:
    """The file that a checkpoint's weights make, byte by byte: every parameter once, as float32.

    `header` are the bytes before the numbers; `stored` is the name under which a parameter lies there, that
    of the first with the same numbers; `offsets` are where those lie, `size` is the whole file's.
    """

    def __init__(self, checkpoint: Checkpoint, weights: Mapping[str, Weight]):
        self.checkpoint, self.weights = checkpoint, weights
        first: dict[tuple, str] = {}
        self.stored = {name: first.setdefault(weight.key, name) for name, weight in weights.items()}
        header: dict[str, dict] = {}
        ends = 0
        for name in first.values():
            begins, ends = ends, ends + self.nbytes(name)
            header[name] = {
                "dtype": "F32",
                "shape": list(weights[name].shape),
                "data_offsets": [begins, ends],
            }
        text = json.dumps(header).encode()
        text += b" " * (-(8 + len(text)) % 64)
        self.header = len(text).to_bytes(8, "little") + text
        self.offsets = {name: len(self.header) + entry["data_offsets"][0] for name, entry in header.items()}
        self.size = len(self.header) + ends

    def nbytes(self, name: str) -> int:
        """Bytes of a parameter."""
        return FLOAT * math.prod(self.weights[name].shape)

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """The numbers of a parameter as they lie in the file, in blocks of whole rows."""
        for rows in self.weights[name].rows(self.checkpoint):
            yield rows.astype("<f4", copy=False)

    def write(self, folder: Path, progress: Progress) -> str:
        """Write the file, and return its SHA-256; `progress` is told bytes of numbers done, and in all."""
        digest, done = hashlib.sha256(self.header), 0
        with (folder / WEIGHTS).open("wb") as file:
            file.write(self.header)
            for name in self.offsets:
                for rows in self.rows(name):
                    file.write(rows.data)
                    digest.update(rows.data)
                    done += rows.nbytes
                    progress(done, self.size - len(self.header))
        return digest.hexdigest()

    def tensors(self, folder: Path) -> dict[str, ir.TensorProtocol]:
        """Every parameter where it lies in the file of that folder, which need not be there yet."""
        return {
            name: ir.ExternalTensor(
                WEIGHTS,
                self.offsets[self.stored[name]],
                self.nbytes(name),
                ir.DataType.FLOAT,
                shape=ir.Shape(weight.shape),
                name=self.stored[name],
                base_dir=folder,
            )
            for name, weight in self.weights.items()
        }
