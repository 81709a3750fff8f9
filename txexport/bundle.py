"""The folder that export writes: graphs, weights, tokenizer, configs, and txexport.json about them."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from txexport.errors import BundleError

MANIFEST = "txexport.json"
DENSE = "dense.npz"  # beside the config.json of a dense layer of sentence vectors
WEIGHTS = "weights.safetensors"
FORMAT = 2


@dataclass(frozen=True)
class Port:
    """An input or output of a graph; a string in `shape` is a symbolic dimension."""

    name: str
    dtype: str
    shape: list[int | str]


@dataclass(frozen=True)
class GraphFile:
    """One ONNX file of a bundle, and its SHA-256."""

    file: str
    inputs: list[Port]
    outputs: list[Port]
    sha256: str


@dataclass(frozen=True)
class Source:
    """The checkpoint that a bundle was made from: its folder as given, and SHA-256 by file name."""

    path: str
    sha256: dict[str, str]


@dataclass(frozen=True)
class Proof:
    """What verify found when it last tried a bundle whole, and the SHA-256 of the files that it tried.

    `verdict` is "equal" or "NOT EQUAL", `scope` to what, in which runtime, by which cases; `worst_error` is
    of the output that came nearest to its bound, None where it was not finite or nothing was compared.
    """

    created: str
    verdict: str
    scope: str
    references: list[str]
    cases: int
    failed: int
    skipped: int
    numbers: int
    worst_output: str
    worst_error: float | None
    bound: float
    versions: dict[str, str]
    sha256: dict[str, str]


@dataclass(frozen=True)
class Manifest:
    """What txexport.json says.

    `graphs` are by role: `model`, or `encoder_model` and `decoder_model`. `cache` is "static", "dynamic"
    or None. `opset` is the standard operator set of every graph. `limits` are the longest sequences, in
    tokens, of encoder and decoder; None is no limit. `companions` are the files copied from the checkpoint,
    with their SHA-256; `weights_sha256` and
    `weights_bytes` are of the weights file. `proof` is what verify last found, None before.
    """

    model_type: str
    task: str
    cache: str | None
    opset: int
    graphs: dict[str, GraphFile]
    limits: dict[str, int | None]
    spec: dict
    source: Source
    companions: dict[str, str]
    weights_sha256: str
    weights_bytes: int
    versions: dict[str, str]
    format: int = FORMAT
    proof: Proof | None = None

    @property
    def files(self) -> list[str]:
        """Every file of the bundle, as paths below its folder."""
        graphs = [graph.file for graph in self.graphs.values()]
        return [MANIFEST, WEIGHTS, *graphs, *self.companions]

    @property
    def files_sha256(self) -> dict[str, str]:
        """SHA-256 of every file of the bundle but this one."""
        graphs = {graph.file: graph.sha256 for graph in self.graphs.values()}
        return graphs | {WEIGHTS: self.weights_sha256} | self.companions

    def write(self, path: Path) -> None:
        """Write this as txexport.json at `path`."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")


def reads_tokens(graphs: Mapping[str, GraphFile]) -> bool:
    """Whether a graph takes token ids."""
    return any(port.name == "input_ids" for graph in graphs.values() for port in graph.inputs)


def read_json(path: Path, missing: dict | list | None = None):
    """The object in a bundle's JSON file, or the list where `missing` is one.

    Where there is no file, `missing`; without that, and for a damaged file, raises BundleError.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if missing is None:
            raise BundleError(f"{path.parent} is incomplete: {path.name} is missing; export again") from None
        return missing
    except (OSError, ValueError) as error:
        raise BundleError(f"{path} cannot be read as JSON: {error}") from None
    kind = list if isinstance(missing, list) else dict
    if not isinstance(value, kind):
        raise BundleError(f"{path} holds a {type(value).__name__}, expected a {kind.__name__}")
    return value


def read(folder: str | Path) -> Manifest:
    """The manifest of a bundle whose graphs and weights are all there.

    Raises BundleError when `folder` is no bundle, is incomplete, or comes from a newer txexport.
    """
    manifest = read_manifest(Path(folder))
    for name in [WEIGHTS, *(graph.file for graph in manifest.graphs.values())]:
        if not (Path(folder) / name).is_file():
            raise BundleError(f"{folder} is incomplete: {name} is missing; export again")
    return manifest


def check(folder: Path, manifest: Manifest) -> None:
    """Raise BundleError where a graph is not the one that was exported, or the weights are of another size.

    Every byte of the weights is what `txexport verify` looks at: reading them all would take longer than
    loading.
    """
    for graph in manifest.graphs.values():
        if hashlib.sha256((folder / graph.file).read_bytes()).hexdigest() != graph.sha256:
            raise BundleError(f"{folder / graph.file} is not the file that was exported; export again")
    size = (folder / WEIGHTS).stat().st_size
    if size != manifest.weights_bytes:
        raise BundleError(
            f"{folder / WEIGHTS} is {size:,} bytes, expected {manifest.weights_bytes:,}; export again"
        )


def read_manifest(folder: Path) -> Manifest:
    """What txexport.json says, whether or not the other files are there. Raises BundleError as `read`."""
    path = folder / MANIFEST
    if not path.is_file():
        raise BundleError(f"{folder} is not a bundle: it has no {MANIFEST}; make one with txexport export")
    values = read_json(path)
    try:
        if values["format"] > FORMAT:
            raise BundleError(
                f"{path} has format {values['format']}, this txexport reads up to {FORMAT}; update it"
            )
        if values["format"] < FORMAT:
            raise BundleError(f"{path} is of an older txexport; export again")
        graphs = {
            role: GraphFile(
                graph["file"],
                [Port(**port) for port in graph["inputs"]],
                [Port(**port) for port in graph["outputs"]],
                graph["sha256"],
            )
            for role, graph in values.pop("graphs").items()
        }
        found = values.pop("proof", None)
        proof = None if found is None else Proof(**found)
        return Manifest(**values | {"graphs": graphs, "source": Source(**values["source"]), "proof": proof})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{path} is damaged: {error!r}; export again") from None


def tried_sha256(folder: Path, manifest: Manifest) -> dict[str, str]:
    """SHA-256 of graphs and weights as they are now, which reads all of them."""
    found = {}
    for name in [*(graph.file for graph in manifest.graphs.values()), WEIGHTS]:
        with (folder / name).open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def record(folder: Path, proof: Proof) -> None:
    """Write a proof into txexport.json, all or nothing. Raises OSError where the folder cannot be written."""
    manifest = dataclasses.replace(read_manifest(folder), proof=proof)
    draft = folder / f"{MANIFEST}.{os.getpid()}"
    try:
        manifest.write(draft)
        draft.replace(folder / MANIFEST)
    finally:
        draft.unlink(missing_ok=True)
