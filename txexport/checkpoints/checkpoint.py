"""A checkpoint, read lazily: a folder with config.json and weights in one file or shards, or a GGUF file.

The safetensors layout is read here, not by its library, because the exporter needs byte ranges, reads without
a memory-mapped file, and bfloat16 without PyTorch.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from txexport.checkpoints import quantised
from txexport.checkpoints.gguf import model as gguf
from txexport.checkpoints.gguf.tensors import GgufTensor
from txexport.checkpoints.pytorch.files import read_index
from txexport.checkpoints.quantised.matrix import Matrix, Stack
from txexport.checkpoints.stored import CHUNK, SIZES, Stored, reading
from txexport.checkpoints.wrappers import unwrapped
from txexport.errors import CheckpointError
from txexport.formats.blocks import Blocks
from txexport.support.near_names import near_paths
from txexport.support.paths import (
    ALPHABET,
    CHAT_TEMPLATES,
    FONT,
    LANGUAGE_MODEL,
    OF_LANGUAGE_MODEL,
    links_out,
    sha256,
    stays_inside,
)

OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".safetensors")
# Files that an application needs besides the weights.
COMPANIONS = (".json", ".txt", ".model", ".spm", ".jinja")
READ = ("artifact.metadata",)  # settings of ColBERT
MOST_JSON = 32 << 20  # bytes of a JSON file; Python's objects take some twenty times that
MOST_HEADER = 100_000_000  # bytes of a safetensors header; its library has the same limit
LONGEST_SHAPE = 8


class Checkpoint:
    """A checkpoint folder, opened: its config and an index of its tensors, none of them read yet.

    Weights are read from the first of READERS that is there. A GGUF file is a checkpoint too, and so is a
    folder that holds one and no other weights: `folder` is then the file.
    `config_file` is where config.json's values are. `repository` and `revision` are what a model hub calls
    one that came from there. Where it is quantised, the tensors are those that the packed ones stand for;
    `stored` are those in the files, but for a GGUF file.
    `adapter` is the folder of the one that is merged into it, `adapter_name` what a model hub calls it, and
    `task` the one that it was trained for. `as_published` is whether `config` is what config.json says.
    Raises CheckpointError when config.json or the weights are missing or damaged, or a
    companion is a link that leads out of the folder, and UnsupportedError when it is quantised in a way that
    is not read, or a GGUF file that holds what is not known.
    """

    def __init__(self, source: str | Path):
        self.folder = self.config_file = Path(source)
        self.repository: str | None = None
        self.revision: str | None = None
        self.adapter: Path | None = None
        self.adapter_name: str | None = None
        self.task: str | None = None
        self.as_published = True
        self.tensors: dict[str, Stored | Matrix | Stack | GgufTensor] = {}
        self.gguf, self.in_safetensors = gguf.opened(self.folder), False
        if self.gguf is not None:
            self.as_published = False
            self.folder = self.config_file = self.gguf.file
            self.config, self.files = self.gguf.config, [self.gguf.file]
            self.tensors |= self.gguf.tensors
            return
        if not self.folder.is_dir():
            expected = "expected a checkpoint with config.json and weights, a GGUF file, or org/name on a hub"
            raise CheckpointError(f"{source} is not a folder{near_paths(self.folder, otherwise=expected)}")
        self.companions()  # links out of the folder are refused before anything is read
        self.config_file = self.folder / "config.json"
        self.config = read_json(self.config_file)
        single, self.files = self._weight_files()
        self.in_safetensors = READERS[single] is read_header
        stored: dict[str, Stored] = {}
        for file in self.files:
            header = READERS[single](file)
            twice = stored.keys() & header.keys()
            if twice:
                raise CheckpointError(f"{file.name}: tensor '{min(twice)}' is also in another shard")
            stored |= header
        if not stored:
            raise CheckpointError(f"{self.folder} holds no tensors")
        self.stored: dict[str, Stored] = unwrapped(stored)
        self.in_safetensors = self.in_safetensors and self.stored.keys() == stored.keys()
        self.tensors |= quantised.logical(self.config, self.stored)

    def _weight_files(self) -> tuple[str, list[Path]]:
        """The files of weights, and the name in READERS by which they were found."""
        for single in READERS:
            if (self.folder / single).is_file():  # takes precedence over shards, as in transformers
                return single, [self.folder / single]
            if (self.folder / f"{single}.index.json").is_file():
                return single, self._shards(f"{single}.index.json")
        if (self.folder / "txexport.json").is_file():
            raise CheckpointError(f"{self.folder} is a bundle already; expected a checkpoint")
        other = sorted(f.name for f in self.folder.iterdir() if f.suffix in OTHER_WEIGHTS)
        hint = f"found {', '.join(other[:3])}; " if other else ""
        raise CheckpointError(f"{self.folder} has no weights ({hint}expected {' or '.join(READERS)})")

    def _shards(self, index: str) -> list[Path]:
        weight_map = read_json(self.folder / index).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            raise CheckpointError(f"{index}: 'weight_map' is not tensor names to file names")
        for name in weight_map.values():
            if not stays_inside(name):
                raise CheckpointError(f"{index} names {name!r}, expected a file within its folder")
        files = [self.folder / name for name in sorted(set(weight_map.values()))]
        for file in files:
            if not file.is_file():
                raise CheckpointError(f"{file.name} is missing, though {index} names it")
        return files

    def read(self, name: str, number: int | None = None) -> np.ndarray:
        """All of a tensor as float32; half and bfloat16 widen exactly, float64 and scaled integers round.

        If a `number` is given, only that expert's part of a tensor whose first axis is the experts.
        """
        rows = list(self.rows(name, number))
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def rows(self, name: str, number: int | None = None) -> Iterator[np.ndarray]:
        """The tensor, or an expert's part as in `read`, as float32, in blocks of some megabytes of rows.

        Raises CheckpointError if it cannot be read, UnsupportedError for a type that is no float.
        """
        stored = self._part(name, number)
        yield from stored.rows(name) if isinstance(stored, Stored) else stored.rows()

    @property
    def quantised(self) -> bool:
        """True if any tensor is unpacked from a quantised one."""
        return any(not isinstance(tensor, Stored) for tensor in self.tensors.values())

    def blocks(self, name: str, number: int | None = None) -> Blocks | None:
        """The integers and scales (out,in) that a quantised checkpoint keeps of a tensor, or of an expert's
        part, which `rows` gives the products of; None where it keeps floats, or codes of floats.

        Raises CheckpointError where they cannot be read or contradict each other.
        """
        stored = self._part(name, number)
        return None if isinstance(stored, Stored) else stored.blocks()

    def _part(self, name: str, number: int | None) -> Stored | Matrix | Stack | GgufTensor:
        stored = self.tensors[name]
        if number is None:
            return stored
        assert isinstance(stored, Stored | Stack)  # no architecture of GGUF that is read stacks any
        return stored.at(number)

    def rounds(self, name: str) -> bool:
        """Tell whether the checkpoint quantises the activations of a matrix; see Matrix.rounds."""
        stored = self.tensors[name]
        return not isinstance(stored, Stored) and stored.rounds

    def companions(self) -> dict[str, Path | bytes]:
        """Configs, tokenizer, templates, n-gram model, configs of sentence-transformers' modules, by name.

        Those of a GGUF file are derived from its metadata. They are copied into bundles, which are published:
        one that is a link to a file elsewhere raises CheckpointError. Weights may be such links, since files
        of weights are never copied.
        """
        if self.gguf is not None:
            return dict(self.gguf.companions())
        result: dict[str, Path] = {}
        with reading(self.folder):
            paths = sorted(self.folder.iterdir())
        for path in paths:
            named = path.suffix in COMPANIONS and not path.name.endswith(".index.json")
            named = named or path.name == FONT
            if path.is_file() and named and path.name != "txexport.json":
                result[path.name] = path
            elif path.is_dir() and path.name[:1].isdigit() and (path / "config.json").is_file():
                result[f"{path.name}/config.json"] = path / "config.json"
            elif path.name == CHAT_TEMPLATES and path.is_dir():
                result |= {f"{path.name}/{one.name}": one for one in sorted(path.glob("*.jinja"))}
        if ALPHABET in result:
            beside = {f"{LANGUAGE_MODEL}/{one.name}": one for one in (self.folder / LANGUAGE_MODEL).glob("*")}
            result |= {name: beside[name] for name in sorted(beside) if OF_LANGUAGE_MODEL.fullmatch(name)}
        for name, path in result.items():
            if links_out(path, self.folder):
                raise CheckpointError(f"{self.folder / name} is a link out of the checkpoint; copy it there")
        return dict(result)

    def hashes(self) -> dict[str, str]:
        """SHA-256 of every file that moves an answer, as paths below the folder: config.json, weights, and
        tokenizer, templates and settings, which lie beside. Raises CheckpointError."""
        files = {file.name: file for file in (self.config_file, *self.files)}
        beside = {name: file for name, file in self.companions().items() if isinstance(file, Path)}
        result = {}
        for name, file in (
            files | self._modules() | {n: f for n, f in beside.items() if n not in files}
        ).items():
            with reading(file):
                result[name] = sha256(file)
        return result

    def _modules(self) -> dict[str, Path]:
        """Files that are read, not copied: weights of sentence-transformers' dense layers, and READ."""
        if self.gguf is not None:
            return {}
        folders = sorted(self.folder.glob("[0-9]*_Dense"))
        files = [file for folder in folders for file in Checkpoint(folder).files]
        files += [self.folder / name for name in READ if (self.folder / name).is_file()]
        return {file.relative_to(self.folder).as_posix(): file for file in files}


def chunks(file: Path) -> Iterator[bytes]:
    """A file's bytes, a few megabytes at a time. Raises CheckpointError."""
    with reading(file), file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def read_json(path: Path) -> dict:
    """The object in a JSON file. Raises CheckpointError if there is none."""
    try:
        if not path.is_file() and path.exists():
            raise ValueError("it is not a file")
        if (size := path.stat().st_size) > MOST_JSON:
            raise ValueError(f"it has {size:,} bytes, the limit is {MOST_JSON:,}")
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "; export its base with --adapter" * (path.parent / "adapter_config.json").is_file()
        raise CheckpointError(f"{path.parent} has no {path.name}{hint}") from None
    except RecursionError:
        raise CheckpointError(f"{path} cannot be read as JSON: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a {type(value).__name__}, expected an object")
    return value


def read_header(file: Path) -> dict[str, Stored]:
    """The location of each tensor of a safetensors file. Raises CheckpointError if the file is damaged."""
    try:
        with reading(file), file.open("rb") as stream:
            size = file.stat().st_size
            head = stream.read(8)
            length = int.from_bytes(head, "little")
            if head == b"version ":
                raise ValueError("it is a pointer of Git LFS, not the weights; run git lfs pull")
            if not size:
                raise ValueError("it is empty; copy it again")
            if not 0 < length <= MOST_HEADER:
                raise ValueError("it begins as no such file does: it is of another kind, or damaged")
            if length > size - 8:
                raise ValueError(f"it ends within its header: {size:,} bytes; copy it again")
            header = json.loads(stream.read(length), object_pairs_hook=_distinct)
        if not isinstance(header, dict):
            raise ValueError(f"its header is a {type(header).__name__}, expected an object")
        header.pop("__metadata__", None)
        tensors = {name: _stored(file, 8 + length, name, entry) for name, entry in header.items()}
        _check_apart(tensors)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not a safetensors file: {error}") from None
    needed = max((t.offset + t.nbytes for t in tensors.values()), default=0)
    if needed > size:
        raise CheckpointError(
            f"{file} is truncated: {size} bytes, its header promises {needed}; copy it again"
        )
    return tensors


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object whose names differ. Raises ValueError."""
    result: dict[str, object] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"'{name}' appears twice")
        result[name] = value
    return result


def _stored(file: Path, start: int, name: str, entry: Any) -> Stored:
    """The tensor of an entry of the header; the data begins at byte `start`. Raises ValueError."""
    if not (isinstance(entry, dict) and {"dtype", "shape", "data_offsets"} <= entry.keys()):
        raise ValueError(f"tensor '{name}' has no dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str):
        raise ValueError(f"tensor '{name}' has a dtype that is no string")
    if not (_are_sizes(shape) and len(shape) <= LONGEST_SHAPE):
        raise ValueError(f"tensor '{name}' has a shape that is not up to {LONGEST_SHAPE} sizes")
    if not (_are_sizes(offsets) and len(offsets) == 2 and offsets[0] <= offsets[1]):
        raise ValueError(f"tensor '{name}' has data_offsets that are not a begin and an end")
    begin, end = offsets
    if dtype in SIZES and end - begin != math.prod(shape) * SIZES[dtype]:
        raise ValueError(f"tensor '{name}' of {dtype} {tuple(shape)} does not fill its {end - begin} bytes")
    return Stored(file, dtype, tuple(shape), start + begin, end - begin)


def _are_sizes(values: object) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)


def _check_apart(tensors: Mapping[str, Stored]) -> None:
    """Raise ValueError for tensors that overlap: a write to one would change the other."""
    last, before = 0, ""
    for name, stored in sorted(tensors.items(), key=lambda item: item[1].offset):
        if stored.offset < last and stored.nbytes:
            raise ValueError(f"tensor '{name}' begins within tensor '{before}'")
        if stored.nbytes:
            last, before = stored.offset + stored.nbytes, name


# Files of weights, and the function that lists the tensors of one; each may be shards with an index.
READERS: dict[str, Callable[[Path], dict[str, Stored]]] = {
    "model.safetensors": read_header,
    "pytorch_model.bin": read_index,
}
