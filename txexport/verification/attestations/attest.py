"""`attest`: the statement of a verified bundle."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from txexport import bundle
from txexport.bundle import MANIFEST
from txexport.bundle.source import changed
from txexport.checkpoints.origins import Origins
from txexport.errors import BundleError, CheckpointError, crashes
from txexport.support.arguments import checked
from txexport.verification.attempt import CaseProgress
from txexport.verification.attestations.derivation import Derivation, checkpoint_of, derived_of
from txexport.verification.attestations.facts import ALWAYS, facts_of, limits_of
from txexport.verification.attestations.hash_tree import root_of
from txexport.verification.attestations.leaves import (
    Range,
    WeightLeaf,
    digests_of,
    ranges_of,
    tensor_leaves,
)
from txexport.verification.attestations.statement import Statement
from txexport.verification.verifier import verify


@checked
@crashes()
def attest(
    out: str | Path,
    *,
    source: str | Path | None = None,
    adapter: str | Path | None = None,
    recorded: bool = False,
    progress: CaseProgress | bool | None = None,
) -> Statement:
    """The in-toto statement of the bundle `out`: its files, its verdict, and the origin of its weights.

    `verify` is run, which `progress` is for. With `recorded`, the verdict is the one in the bundle, if the
    bundle has not changed since; whoever can write the folder can write that too. `source` and `adapter` are
    the checkpoint and its adapter, by default those that the bundle was exported from. Every range of the
    weights files is made again from the checkpoint's tensors, without running a graph. Weights are read a
    few megabytes at a time; those of a traced bundle one tensor at a time.

    The result's `to_bytes` and `write` give JSON, which other software signs. Raises the errors of `verify`,
    and BundleError for a weight that is not what export makes of the checkpoint.
    """
    folder = Path(out)
    if not (recorded and _is_verified(folder)):
        verify(folder, source=source, adapter=adapter, progress=progress)
    manifest = bundle.read_any(folder)
    if manifest.proof is None:
        raise BundleError(f"{folder} has no verdict, since none could be recorded; make it writable")
    checkpoint = checkpoint_of(folder, manifest, source, adapter)
    if names := changed(checkpoint, manifest.source):
        raise CheckpointError(f"{checkpoint.folder} is not what was exported: {', '.join(names[:3])} differs")
    origins = Origins(checkpoint)
    tensors = tensor_leaves(origins)
    ranges = ranges_of(folder, manifest)
    subjects, digests = digests_of(folder, ranges)
    proof = manifest.proof
    assert proof is not None
    if subjects | {MANIFEST: manifest.sha256} != proof.sha256:
        raise BundleError(f"{folder} was changed while it was attested; attest it again")
    derived = derived_of(folder, manifest, checkpoint, origins, tensors, digests)
    known = {leaf.name: leaf.sha256 for leaf in tensors}
    weights = []
    for path, of_file in ranges.items():
        for one in of_file:
            leaf = _leaf(path, one, digests[path, one.name], derived.get((path, one.name)), known)
            weights.append(leaf)
    return Statement(
        subjects=subjects,
        facts=facts_of(manifest, proof),
        weights=weights,
        tensors=tensors,
        weights_root=root_of(weights),
        tensors_root=root_of(tensors),
        not_tried=[*limits_of(manifest, proof, weights), *ALWAYS],
        attested_by={"txexport": version("txexport")},
    )


def _is_verified(folder: Path) -> bool:
    """True if the bundle has a proof of its files as they are."""
    proof = bundle.read_any(folder).proof
    return proof is not None and proof.sha256 == bundle.files_sha256(folder)


def _leaf(
    path: str, one: Range, digest: str, derivation: Derivation | None, known: Mapping[str, str]
) -> WeightLeaf:
    """The leaf of a range. Raises BundleError if it is not what export makes."""
    if derivation is None or derivation.sha256 not in (None, digest):
        tensors = "" if derivation is None else f" of {', '.join(derivation.tensors)}"
        raise BundleError(f"{path}: {one.name} is not what export makes{tensors}; verify the bundle")
    return WeightLeaf(
        path,
        one.name,
        one.offset,
        one.length,
        digest,
        {name: known[name] for name in derivation.tensors},
        list(derivation.rule),
        derivation.sha256 is not None,
    )
