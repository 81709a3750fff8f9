"""Bundles that are changed: with other files than their checkpoints have, or other numbers."""

import dataclasses
from pathlib import Path

import numpy as np
from safetensors import safe_open

from txexport import bundle
from txexport.checkpoints.checkpoint import read_header, sha256


def relist(folder: Path) -> Path:
    """Have txexport.json say that all companions are as they lie there, as if they were exported so."""
    manifest = bundle.read_manifest(folder)
    own = {bundle.MANIFEST, bundle.WEIGHTS, *(graph.file for graph in manifest.graphs.values())}
    names = [name for name in bundle.present(folder) if name not in own]
    companions = {name: sha256(folder / name) for name in names}
    dataclasses.replace(manifest, companions=companions).write(folder / bundle.MANIFEST)
    return folder


def weight_names(folder: Path) -> list[str]:
    """Names of what is stored."""
    with safe_open(folder / "weights.safetensors", "np") as file:
        return list(file.keys())


def tamper(folder: Path, name: str, change) -> None:
    """Change one tensor's numbers where they lie."""
    stored = read_header(folder / "weights.safetensors")[name]
    with (folder / "weights.safetensors").open("r+b") as file:
        file.seek(stored.offset)
        numbers = np.frombuffer(file.read(stored.nbytes), np.float32).reshape(stored.shape).copy()
        file.seek(stored.offset)
        file.write(change(numbers).astype(np.float32).tobytes())
