"""Bundles that are changed: with other files than their checkpoints have, or other numbers."""

import dataclasses
from pathlib import Path

import numpy as np
from safetensors import safe_open

from txexport import bundle
from txexport.checkpoints.checkpoint import read_header, sha256
from txexport.contracts import roles


def relist(folder: Path) -> Path:
    """Have txexport.json say that all companions are as they lie there, as if they were exported so."""
    manifest = bundle.read_manifest(folder)
    own = {bundle.MANIFEST, *manifest.data, *(graph.file for graph in manifest.every_graph)}
    names = [name for name in bundle.present(folder) if name not in own]
    companions = {name: sha256(folder / name) for name in names}
    dataclasses.replace(manifest, companions=companions).write(folder / bundle.MANIFEST)
    return folder


def weights_path(folder: Path) -> Path:
    """The bundle's first file of weights, or only one."""
    return folder / next(iter(bundle.read_manifest(folder).data))


def graph_path(folder: Path, role: str = roles.MODEL) -> Path:
    """The graph of our runtime's that has that role."""
    return folder / bundle.read_manifest(folder).graphs[role].file


def stored(folder: Path) -> dict[str, np.ndarray]:
    """What lies in a bundle's files of weights, by name."""
    arrays: dict[str, np.ndarray] = {}
    for path in bundle.read_manifest(folder).data:
        with safe_open(folder / path, "np") as file:
            arrays |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return arrays


def weight_names(folder: Path) -> list[str]:
    """Names of what is stored."""
    return [*stored(folder)]


def tamper(folder: Path, name: str, change) -> None:
    """Change one tensor's numbers where they lie."""
    headers = {folder / path: read_header(folder / path) for path in bundle.read_manifest(folder).data}
    place, header = next((path, header) for path, header in headers.items() if name in header)
    found = header[name]
    with place.open("r+b") as file:
        file.seek(found.offset)
        numbers = np.frombuffer(file.read(found.nbytes), np.float32).reshape(found.shape).copy()
        file.seek(found.offset)
        file.write(change(numbers).astype(np.float32).tobytes())
