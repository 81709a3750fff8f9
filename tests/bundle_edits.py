"""Bundles with other files than their checkpoints have."""

import dataclasses
from pathlib import Path

from txexport import bundle
from txexport.checkpoints.checkpoint import sha256


def relist(folder: Path) -> Path:
    """Have txexport.json say that all companions are as they lie there, as if they were exported so."""
    manifest = bundle.read_manifest(folder)
    own = {bundle.MANIFEST, bundle.WEIGHTS, *(graph.file for graph in manifest.graphs.values())}
    names = [name for name in bundle.present(folder) if name not in own]
    companions = {name: sha256(folder / name) for name in names}
    dataclasses.replace(manifest, companions=companions).write(folder / bundle.MANIFEST)
    return folder
