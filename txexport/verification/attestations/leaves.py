"""The leaves of both hash trees: tensors of a checkpoint, and ranges of a bundle's weights files."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from txexport import bundle
from txexport.bundle import Manifest, TracedManifest
from txexport.checkpoints.checkpoint import read_header
from txexport.checkpoints.origins import Origins, stored_bytes
from txexport.errors import crashes
from txexport.verification.attestations.hash_tree import hashed


@dataclass(frozen=True)
class TensorLeaf:
    """A tensor of the checkpoint. `sha256` is that of its numbers as a safetensors file stores them."""

    file: str
    name: str
    dtype: str
    shape: list[int]
    sha256: str


@dataclass(frozen=True)
class WeightLeaf:
    """An initializer of the bundle's graphs: `length` bytes from `offset` of a weights file.

    `tensors` are the SHA-256 of the checkpoint's tensors that it was made of, by name; `rule` are the steps
    from their numbers to these bytes. `recomputed` is true if they were made again when it was attested.
    """

    file: str
    name: str
    offset: int
    length: int
    sha256: str
    tensors: dict[str, str]
    rule: list[str]
    recomputed: bool

    @property
    def origin(self) -> str:
        """The tensors, for the end of a message."""
        names = list(self.tensors)
        more = f" and {len(names) - 2} others" if len(names) > 2 else ""
        return f" (made of {' and '.join(names[:2])}{more})" if names else ""


@dataclass(frozen=True)
class Range:
    """A range of a weights file, and the initializer that it holds."""

    name: str
    offset: int
    length: int


def tensor_leaves(origins: Origins) -> list[TensorLeaf]:
    """The leaves of a checkpoint, by name. Reads all of its weights. Raises CheckpointError."""
    leaves = []
    for name, stored in sorted(origins.stored.items()):
        digest = hashlib.sha256()
        for chunk in stored_bytes(stored, name):
            digest.update(chunk)
        leaves.append(TensorLeaf(stored.file.name, name, stored.dtype, [*stored.shape], digest.hexdigest()))
    return leaves


def ranges_of(folder: Path, manifest: Manifest | TracedManifest) -> dict[str, list[Range]]:
    """The ranges of each weights file, in the order of the file. Raises BundleError or CheckpointError.

    The files of a traced bundle list none: its graphs do, and are read with onnx.
    """
    if manifest.traced is None:
        headers = {path: read_header(folder / path) for path in sorted(manifest.data)}
        return {
            path: _sorted([Range(name, one.offset, one.nbytes) for name, one in header.items()])
            for path, header in headers.items()
        }
    from txexport.verification.attestations.traced_ranges import ranges_of_graphs  # which needs onnx

    with crashes():
        ranges = ranges_of_graphs(folder, manifest)
    return {
        path: _sorted([Range(name, *place) for place, name in ranges.get(path, {}).items()])
        for path in sorted(manifest.data)
    }


def _sorted(ranges: list[Range]) -> list[Range]:
    return sorted(ranges, key=lambda one: (one.offset, one.length, one.name))


def subjects_of(folder: Path) -> list[str]:
    """The files of a bundle that a statement is about; those that nothing reads are left out."""
    return [name for name in bundle.present(folder) if (folder / name).is_file()]


def by_file(leaves: list[WeightLeaf]) -> Mapping[str, list[WeightLeaf]]:
    """The leaves of each file, in order."""
    result: dict[str, list[WeightLeaf]] = {}
    for leaf in leaves:
        result.setdefault(leaf.file, []).append(leaf)
    return result


def digests_of(
    folder: Path, ranges: Mapping[str, list[Range]]
) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """SHA-256 of every file of a bundle, and of every range by file and name; each file is read once."""
    files: dict[str, str] = {}
    result: dict[tuple[str, str], str] = {}
    for name in subjects_of(folder):
        of_file = ranges.get(name, [])
        files[name], digests = hashed(folder / name, [(one.offset, one.length) for one in of_file])
        result |= {(name, one.name): digest for one, digest in zip(of_file, digests, strict=True)}
    return files, result
