"""Edits of bundles: replaced files, or changed weights."""

import dataclasses
from pathlib import Path

import numpy as np
from safetensors import safe_open

from txexport import bundle
from txexport.bundle.proof import ANSWERS
from txexport.checkpoints.checkpoint import read_header, sha256
from txexport.contracts import roles


def relist(folder: Path) -> Path:
    """Update the hashes in txexport.json so that the changed companion files are accepted."""
    manifest = bundle.read_manifest(folder)
    own = {bundle.MANIFEST, ANSWERS, *manifest.data, *(graph.file for graph in manifest.every_graph)}
    names = [name for name in bundle.present(folder) if name not in own]
    companions = {name: sha256(folder / name) for name in names}
    dataclasses.replace(manifest, companions=companions).write(folder / bundle.MANIFEST)
    return folder


def weights_path(folder: Path) -> Path:
    """The bundle's first weight file, or its only one."""
    return folder / next(iter(bundle.read_manifest(folder).data))


def graph_path(folder: Path, role: str = roles.MODEL) -> Path:
    """The graph of the native runtime that has that role."""
    return folder / bundle.read_manifest(folder).graphs[role].file


def stored(folder: Path) -> dict[str, np.ndarray]:
    """The stored tensors of a bundle's weight files, by name."""
    arrays: dict[str, np.ndarray] = {}
    for path in bundle.read_manifest(folder).data:
        with safe_open(folder / path, "np") as file:
            arrays |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return arrays


def weight_names(folder: Path) -> list[str]:
    """The names of the stored tensors."""
    return [*stored(folder)]


def tamper(folder: Path, name: str, change) -> None:
    """Change one tensor's values in place."""
    headers = {folder / path: read_header(folder / path) for path in bundle.read_manifest(folder).data}
    place, header = next((path, header) for path, header in headers.items() if name in header)
    found = header[name]
    with place.open("r+b") as file:
        file.seek(found.offset)
        numbers = np.frombuffer(file.read(found.nbytes), np.float32).reshape(found.shape).copy()
        file.seek(found.offset)
        file.write(change(numbers).astype(np.float32).tobytes())
