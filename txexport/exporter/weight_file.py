"""The weights file of a bundle, to which graphs refer: a safetensors file that other tools read too."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir
from txgraphs._nodes import Parameter

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_resolution import Weight, stored_names
from txexport.errors import CheckpointError
from txexport.formats import NumberFormat, Part, StoredIntegers, UnstorableError, part_name
from txexport.support.paths import sha256
from txexport.support.progress import Counting


class WeightFile:
    """The layout of a weights file: every parameter once, in its number format.

    `path` is the path in the bundle. `header` are the bytes before the numbers. `stored` is the name under
    which a parameter is stored: that of the first one with the same numbers in the same format. `parts` are
    the stored parts by name, `owners` the parameter of each, `offsets` their positions. `size` is the size of
    the file, `numbers` that without the header. Parts of bytes come first, so that wider types are aligned.
    `encoders` are the formats that make the bytes, those of calibrated parameters included.
    """

    def __init__(
        self,
        path: str,
        checkpoint: Checkpoint,
        weights: Mapping[str, Weight],
        formats: Mapping[str, NumberFormat],
        calibrated: Mapping[str, NumberFormat],
    ):
        self.path, self.checkpoint, self.weights, self.formats = path, checkpoint, weights, formats
        self.encoders = {name: calibrated.get(name, formats[name]) for name in weights}
        self.stored = stored_names(weights, {name: formats[name].name for name in weights})
        parts: dict[str, Part] = {}
        self.owners: dict[str, str] = {}
        for owner in dict.fromkeys(self.stored.values()):
            for suffix, part in formats[owner].parts(weights[owner].shape).items():
                name = part_name(owner, suffix)
                parts[name], self.owners[name] = part, owner
        self.parts = dict(sorted(parts.items(), key=lambda item: item[1].place))
        self._names = {
            part_name(parameter, part): name
            for parameter in weights
            for part, name in self.names(parameter).items()
        }
        header: dict[str, dict] = {}
        unaligned = sum(part.nbytes for part in self.parts.values() if part.type.bits <= 8)
        ends = 0
        for name, part in self.parts.items():
            begins, ends = ends, ends + part.nbytes
            header[name] = {
                "dtype": part.type.safetensors,
                "shape": list(part.stored_shape),
                "data_offsets": [begins, ends],
            }
        text = json.dumps(header).encode()
        text += b" " * (-(8 + len(text) + unaligned) % 64)
        self.header = len(text).to_bytes(8, "little") + text
        self.offsets = {name: len(self.header) + entry["data_offsets"][0] for name, entry in header.items()}
        self.size, self.numbers = len(self.header) + ends, ends

    def names(self, parameter: str) -> dict[str, str]:
        """The names in the file of a parameter's parts, by the format's names of parts, in order."""
        parts = self.formats[parameter].parts(self.weights[parameter].shape)
        return {part: part_name(self.stored[parameter], part) for part in parts}

    def part_of(self, initializer: str) -> str | None:
        """The part that an initialiser of a graph refers to; a private one has its own parameter's name."""
        return self._names.get(initializer.rpartition("/")[2])

    def blocks(self, parameter: str) -> Iterator[tuple[str, np.ndarray]]:
        """Yield a parameter's bytes in the layout of the file, in blocks, each with the name of its part."""
        names = self.names(parameter)
        weight = self.weights[parameter]
        for part, block in self._encoded(self.encoders[parameter], weight):
            yield names[part], np.ascontiguousarray(block)

    def _encoded(self, number_format: NumberFormat, weight: Weight) -> Iterator[tuple[str, np.ndarray]]:
        if isinstance(number_format, StoredIntegers):
            blocks = weight.blocks(self.checkpoint)
            assert blocks is not None
            yield from number_format.pack(blocks)
            return
        try:
            yield from number_format.encode(weight.rows(self.checkpoint), weight.shape)
        except UnstorableError as error:
            raise CheckpointError(f"{weight.parameter} {error}") from None

    def write(self, folder: Path, progress: Counting) -> str:
        """Write the file and return its SHA-256; `progress` receives the bytes of numbers done and in all."""
        digest, done, in_order = hashlib.sha256(self.header), 0, True
        ends = dict(self.offsets)  # the end of the written bytes of each part
        with (folder / self.path).open("wb") as file:
            file.write(self.header)
            for owner in dict.fromkeys(self.stored.values()):
                for name, block in self.blocks(owner):
                    if file.tell() != ends[name]:
                        file.seek(ends[name])
                        in_order = False
                    file.write(block.data)
                    ends[name] += block.nbytes
                    if in_order:
                        digest.update(block.data)
                    done += block.nbytes
                    progress(done, self.numbers)
        return digest.hexdigest() if in_order else sha256(folder / self.path)

    def parameters(self, folder: Path) -> dict[str, Parameter]:
        """Every parameter with its position in the file in that folder, which need not exist yet."""
        return {
            parameter: Parameter(
                self.formats[parameter],
                {part: self._tensor(folder, name) for part, name in self.names(parameter).items()},
            )
            for parameter in self.weights
        }

    def _tensor(self, folder: Path, name: str) -> ir.ExternalTensor:
        part, place = self.parts[name], folder / self.path
        return ir.ExternalTensor(
            place.name,
            self.offsets[name],
            part.nbytes,
            ir.DataType[part.type.onnx],
            shape=ir.Shape(part.shape),
            name=name,
            base_dir=place.parent,
        )
