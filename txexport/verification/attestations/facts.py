"""The sections of a statement's predicate that a bundle contains itself."""

import dataclasses
from pathlib import PurePosixPath
from typing import Any

from txexport.bundle import Manifest, TracedManifest
from txexport.bundle.proof import Proof
from txexport.bundle.source import COMMIT
from txexport.verification.attestations.leaves import WeightLeaf

SINGLE_FILE = "weights are inside the graphs, whose digests cover them, and have no leaves"
ALWAYS = (
    "other machines, devices and versions than those named",
    "pooling, stopping criteria and sampling",
)


def facts_of(manifest: Manifest | TracedManifest, proof: Proof) -> dict[str, Any]:
    """The sections of a predicate that a bundle contains itself."""
    verification = dataclasses.asdict(proof)
    del verification["sha256"]  # the subjects have it
    recorded = manifest.source
    adapter = recorded.adapter
    if adapter is not None and not COMMIT.fullmatch(adapter):
        adapter = PurePosixPath(adapter).name  # a path says nothing elsewhere
    return {
        "model": {
            "model_type": manifest.model_type,
            "task": manifest.task if isinstance(manifest, Manifest) else manifest.architecture,
            "dtypes": list(manifest.formats) if isinstance(manifest, Manifest) else [],
            "format": manifest.format,
            "traced": manifest.traced,
        },
        "verification": verification,
        "exported_by": manifest.versions,
        "source": {
            "name": recorded.repository or PurePosixPath(recorded.path).name,
            "digest": recorded.digest,
            "sha256": recorded.sha256,
            "revision": recorded.revision,
            "adapter": adapter,
        },
    }


def limits_of(manifest: Manifest | TracedManifest, proof: Proof, weights: list[WeightLeaf]) -> list[str]:
    """The limits of the statement about a bundle, in words, without those of every statement."""
    result = [f"{proof.skipped} cases, which were skipped"] if proof.skipped else []
    if isinstance(manifest, Manifest) and manifest.form.single_file:
        result.append(SINGLE_FILE)
    if count := sum(not leaf.recomputed for leaf in weights):
        result.append(f"{count} of {len(weights)} ranges of weights, which were not made again")
    return result
