"""`verify_attestation`: a bundle against a statement about it, without running a graph."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from txexport import bundle
from txexport.bundle import Manifest, TracedManifest
from txexport.bundle.source import changed
from txexport.errors import LONGEST_MESSAGE, TxexportError, counted, crashes, shown
from txexport.support.arguments import checked
from txexport.support.printable import line
from txexport.verification.attestations.facts import SINGLE_FILE, facts_of, limits_of
from txexport.verification.attestations.hash_tree import hashed
from txexport.verification.attestations.leaves import (
    TensorLeaf,
    WeightLeaf,
    by_file,
    ranges_of,
    subjects_of,
    tensor_leaves,
)
from txexport.verification.attestations.statement import Statement, read
from txexport.verification.result import exit_code_of

SIGNATURES = "signatures are not checked here: cosign verify-blob-attestation or gpg --verify do that"


@dataclass(frozen=True)
class AttestationReport:
    """The result of comparing a bundle with a statement about it.

    `differences` are sentences, each with the file, and the initializer or tensor if there is one; empty if
    the bundle is the attested one. `source` is the checkpoint that the weights were made again from, if it
    was compared. `skipped` says what could not be compared with it.
    """

    bundle: str
    statement: Statement
    differences: list[str] = field(default_factory=list)
    source: str | None = None
    skipped: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if nothing differs and the stated verdict is one of success."""
        return self.exit_code == 0

    @property
    def verdict(self) -> str:
        """The stated verdict if nothing differs, else "NOT AS ATTESTED"."""
        return "NOT AS ATTESTED" if self.differences else self.statement.verdict

    @property
    def exit_code(self) -> int:
        """The exit code of the stated verdict, as in Report; 1 if anything differs."""
        return 1 if self.differences else exit_code_of(self.statement.verdict)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values, with the statement's scope and roots."""
        stated = self.statement
        values = {name: getattr(self, name) for name in ("bundle", "ok", "verdict", "differences", "skipped")}
        roots = {"weights": stated.weights_root, "checkpoint": stated.tensors_root}
        return values | {"scope": stated.scope, "source": self.source, **roots}

    @property
    def summary(self) -> str:
        """One line about all that was compared."""
        stated = self.statement
        weights = f"{counted(len(stated.weights), 'range')} of weights"
        tensors = counted(len(stated.tensors), "tensor")
        origin = f"made again from {tensors} of {self.source}" if self.source else f"of {tensors}"
        return f"{counted(len(stated.subjects), 'file')}, {weights} {origin}; {SIGNATURES}"


@checked
@crashes()
def verify_attestation(
    out: str | Path,
    attestation: str | Path,
    *,
    source: str | Path | None = None,
    adapter: str | Path | None = None,
) -> AttestationReport:
    """Compare the bundle `out` with the statement in the file `attestation`, which `attest` wrote.

    The file may also be a DSSE envelope or a bundle of Sigstore with the statement in it; signatures are not
    checked. Every file must have its digest, every range of weights that of its leaf, and the verdict be the
    one that the bundle records. No graph runs, and neither PyTorch nor onnx is needed. Files are read once.

    With `source`, the checkpoint's tensors are compared with their leaves too, and the weights are made again
    from them; `adapter` is the adapter that was merged into it. That needs the libraries of export.

    Raises InputError for a file that is no attestation, and the errors of `load` for a damaged bundle.
    """
    folder = Path(out)
    stated = read(attestation)
    manifest = bundle.read_any(folder)
    report = AttestationReport(str(folder), stated)
    if differences := [f"the statement contradicts itself: {one}" for one in stated.contradictions]:
        return replace(report, differences=_lines(differences))
    differences = list(_of_files(folder, stated))
    if manifest.traced is None:
        differences += _of_ranges(folder, manifest, stated)
    report = replace(report, differences=_lines([*differences, *_of_facts(manifest, stated)]))
    if source is None:
        return report
    if report.differences:
        return replace(
            report, skipped=["the checkpoint was not read, since the bundle is not the attested one"]
        )
    differences = _lines(_of_source(folder, manifest, stated, source, adapter))
    left = sum(not leaf.recomputed for leaf in stated.weights)
    skipped = [f"{counted(left, 'range')} of weights cannot be made again without running a graph"] * bool(
        left
    )
    if isinstance(manifest, Manifest) and manifest.form.single_file:
        skipped.append(SINGLE_FILE)
    name = Path(source).resolve().name
    return replace(report, differences=differences, source=name, skipped=skipped)


def _lines(differences: Iterable[str]) -> list[str]:
    """Sentences with names from outside, each as one line of bounded length."""
    return [line(one[:LONGEST_MESSAGE]) for one in differences]


def _of_files(folder: Path, stated: Statement) -> Iterator[str]:
    """The differences of the files of a bundle."""
    present, leaves = subjects_of(folder), by_file(stated.weights)
    for name in sorted(set(bundle.present(folder)) - set(present)):
        yield f"{name} is no file, and not attested"
    for name in stated.subjects:
        if name not in present:
            yield f"{name} is attested, and missing"
    for name in leaves:
        if name not in stated.subjects:
            yield f"{name} has leaves in the statement, but is no subject of it"
    for name in present:
        if name not in stated.subjects:
            yield f"{name} is in the folder, and not attested"
        else:
            yield from _of_file(folder / name, name, stated, leaves.get(name, []))


def _of_file(file: Path, name: str, stated: Statement, leaves: list[WeightLeaf]) -> Iterator[str]:
    """The differences of a file: those of its ranges, if it has any."""
    digest, digests = hashed(file, [(leaf.offset, leaf.length) for leaf in leaves])
    known = {leaf.sha256: leaf.name for leaf in leaves}
    wrong = 0
    for leaf, actual in zip(leaves, digests, strict=True):
        if actual != leaf.sha256:
            wrong += 1
            other = f"; it has the bytes of {known[actual]}" if actual in known else ""
            yield f"{name}: {leaf.name} differs{leaf.origin}{other}"
    if digest != stated.subjects[name] and not wrong:
        yield f"{name} differs" + (", outside of its tensors" if leaves else "")


def _of_ranges(folder: Path, manifest: Manifest | TracedManifest, stated: Statement) -> Iterator[str]:
    """The ranges that lack a leaf, and leaves of none. Those of a traced bundle need onnx."""
    try:
        ranges = ranges_of(folder, manifest)
    except TxexportError as error:
        yield str(error)
        return
    actual = {(path, one.name, one.offset, one.length) for path, some in ranges.items() for one in some}
    listed = {(leaf.file, leaf.name, leaf.offset, leaf.length) for leaf in stated.weights}
    for path, name, *_ in sorted(actual - listed):
        yield f"{path}: {name} is not attested, or elsewhere"
    for path, name, *_ in sorted(listed - actual):
        if (folder / path).is_file():
            yield f"{path}: {name} is attested, and missing or elsewhere"


def _of_facts(manifest: Manifest | TracedManifest, stated: Statement) -> Iterator[str]:
    """The differences between what the statement says of the bundle and what the bundle says."""
    proof = manifest.proof
    if proof is None:
        yield f"txexport.json has no verdict, and the statement says '{stated.verdict}'"
        return
    for section, values in facts_of(manifest, proof).items():
        for name, value in values.items():
            if not _same(stated.facts[section].get(name), value):
                other = shown(stated.facts[section].get(name))
                yield f"txexport.json: {name} of {section} is {shown(value)}, the statement says {other}"
    for limit in limits_of(manifest, proof, stated.weights):
        if limit not in stated.not_tried:
            yield f"the statement does not say that these were not tried: {limit}"


def _same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same; 1 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _of_source(
    folder: Path,
    manifest: Manifest | TracedManifest,
    stated: Statement,
    source: str | Path,
    adapter: str | Path | None,
) -> Iterator[str]:
    """The differences of the checkpoint, or else of weights that are made again from it."""
    from txexport.checkpoints.origins import Origins
    from txexport.verification.attestations.derivation import checkpoint_of, derived_of  # which need onnx

    checkpoint = checkpoint_of(folder, manifest, source, adapter)
    if manifest.traced is not None:
        yield from _of_ranges(folder, manifest, stated)
    origins = Origins(checkpoint)
    tensors = tensor_leaves(origins)
    weights = {file.name for file in {stored.file for stored in origins.stored.values()}}
    differences = list(_of_tensors(tensors, stated))
    others = [name for name in changed(checkpoint, manifest.source) if name not in weights or not differences]
    differences += [f"checkpoint: {name} differs" for name in others]
    if differences:
        yield from differences
        return
    digests = {(leaf.file, leaf.name): leaf.sha256 for leaf in stated.weights}
    derived = derived_of(folder, manifest, checkpoint, origins, tensors, digests)
    for leaf in stated.weights:
        derivation = derived.get((leaf.file, leaf.name))
        if derivation is None:
            yield f"{leaf.file}: export makes no {leaf.name}"
        elif [*derivation.tensors] != [*leaf.tensors]:
            names = " and ".join(derivation.tensors) or "none"
            stated_names = " and ".join(leaf.tensors) or "none"
            yield f"{leaf.file}: {leaf.name} is made of {names}, the statement says {stated_names}"
        elif [*derivation.rule] != leaf.rule:
            rules = ["; ".join(rule) for rule in (derivation.rule, leaf.rule)]
            yield f"{leaf.file}: {leaf.name} is made so: {rules[0]}. The statement says: {rules[1]}"
        elif leaf.recomputed != (derivation.sha256 is not None) or derivation.sha256 not in (
            None,
            leaf.sha256,
        ):
            yield f"{leaf.file}: {leaf.name} is not what export makes{leaf.origin}"


def _of_tensors(tensors: list[TensorLeaf], stated: Statement) -> Iterator[str]:
    """The differences of a checkpoint's tensors."""
    actual, listed = ({leaf.name: leaf for leaf in leaves} for leaves in (tensors, stated.tensors))
    uses: dict[str, str] = {}
    for weight in stated.weights:
        for name in weight.tensors:
            uses.setdefault(name, weight.name)
    for name in sorted(actual.keys() | listed.keys()):
        used = f"; {uses[name]} is made of it" if name in uses else ""
        if name not in actual:
            yield f"checkpoint: {name} is attested, and missing{used}"
        elif name not in listed:
            yield f"checkpoint: {name} is not attested"
        elif actual[name] != listed[name]:
            yield f"checkpoint: {name} differs{used}"
