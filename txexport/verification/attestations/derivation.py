"""A bundle's weights made again from its checkpoint, by the code of export and without running a graph."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txexport import families
from txexport.bundle import Manifest, TracedManifest
from txexport.bundle.source import recorded_at, source_of
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.origins import Origins
from txexport.checkpoints.stored import FLOATS
from txexport.checkpoints.weight_map import Take
from txexport.checkpoints.weight_resolution import Weight
from txexport.exporter.weight_file import WeightFile
from txexport.formats import CalibratedInt4, part_name
from txexport.verification.attestations.leaves import TensorLeaf
from txexport.verification.calibrated import plan_of


@dataclass(frozen=True)
class Derivation:
    """The names of the tensors that a range is made of, the steps, and the SHA-256 of the result.

    `sha256` is None if the bytes do not follow from the tensors alone.
    """

    tensors: tuple[str, ...]
    rule: tuple[str, ...]
    sha256: str | None


def checkpoint_of(
    folder: Path,
    manifest: Manifest | TracedManifest,
    source: str | Path | None,
    adapter: str | Path | None,
) -> Checkpoint:
    """The checkpoint of a bundle of either kind. Raises CheckpointError."""
    if isinstance(manifest, Manifest):
        return source_of(folder, manifest, source, adapter)
    return recorded_at(folder, manifest.source, source)


def derived_of(
    folder: Path,
    manifest: Manifest | TracedManifest,
    checkpoint: Checkpoint,
    origins: Origins,
    tensors: list[TensorLeaf],
    digests: Mapping[tuple[str, str], str],
) -> dict[tuple[str, str], Derivation]:
    """The derivation of each range of a bundle of any kind; see `derivations` and `copies`."""
    if isinstance(manifest, Manifest) and manifest.traced is None:
        return derivations(folder, manifest, checkpoint, origins)
    return copies(digests, checkpoint, origins, tensors)


def derivations(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, origins: Origins
) -> dict[tuple[str, str], Derivation]:
    """The derivation of each range of a bundle's weights files, by file and name.

    A weight is encoded as by export, one after another, and only its hash is kept. Raises CheckpointError and
    UnsupportedError.
    """
    model_type = None if checkpoint.config.get("model_type") else manifest.model_type  # an option of export
    resolved = families.resolve(checkpoint, manifest.task, model_type)
    plan = plan_of(folder, checkpoint, resolved, manifest.form)
    result = {}
    for path, file in {} if manifest.form.single_file else plan.data.items():
        for owner in dict.fromkeys(file.stored.values()):
            for name, derivation in _of_parameter(file, owner, origins):
                result[path, name] = derivation
    return result


def _of_parameter(file: WeightFile, owner: str, origins: Origins) -> Iterator[tuple[str, Derivation]]:
    """The derivations of a parameter's parts, by name."""
    digests = {name: hashlib.sha256() for name in file.names(owner).values()}
    for name, block in file.blocks(owner):
        digests[name].update(block.data)
    weight = file.weights[owner]
    tensors, steps = _origin(weight, origins)
    calibrated = isinstance(file.encoders[owner], CalibratedInt4)
    for part, name in file.names(owner).items():
        assert name == part_name(owner, part)
        stored = f"stored as {file.formats[owner].name}{f', its {part}' if part else ''}"
        chosen = calibrated and not part  # scales and zeros follow from the numbers
        rule = (*steps, f"{stored}, calibrated on texts" if chosen else stored)
        yield name, Derivation(tensors, rule, None if chosen else digests[name].hexdigest())


def _origin(weight: Weight, origins: Origins) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The stored tensors of a parameter, and the steps to its numbers."""
    if not weight.tensors:
        return (), ("computed from its shape",)
    first = origins.of(weight.tensors[0])
    tensors, steps = first.tensors, (*first.steps, *steps_of(weight.take))
    if weight.norms:
        norms = origins.of(weight.norms)
        tensors, steps = (*tensors, *norms.tensors), (*steps, "normalised to the norms in the last tensor")
    if weight.joined:
        others = [name for one in weight.joined for name in origins.of(one).tensors]
        tensors, steps = (*tensors, *others), (*steps, "rows of all tensors in turn")
    return tensors, steps


def steps_of(take: Take) -> list[str]:
    """The steps from a tensor's numbers to a parameter, as statements list them; their meaning is fixed."""
    steps = [f"expert {take.expert} of {take.experts}"] if take.experts else []
    steps += [f"last {len(take.apart)} axes joined"] if take.apart else []
    steps += ["without the last axis"] if take.trailing_axis else []
    steps += ["without the first axis"] if take.leading_axis else []
    steps += ["with a first axis of 1"] if take.no_leading_axis else []
    steps += ["transposed"] if take.transpose else []
    if take.parts > 1:
        which = f"{take.part}" if take.width == 1 else f"{take.part} to {take.part + take.width - 1}"
        groups = f" in each of {take.groups} groups" if take.groups > 1 else ""
        steps.append(f"part {which} of {take.parts} of its {_axis(take)}{groups}")
    steps += [f"plus {take.plus!r}"] if take.plus else []
    if take.times:
        steps.append("rows times " + ", ".join(f"{factor!r} ({rows})" for rows, factor in take.times))
    return steps


def _axis(take: Take) -> str:
    return "columns" if take.along_inputs else "rows"


def copies(
    digests: Mapping[tuple[str, str], str],
    checkpoint: Checkpoint,
    origins: Origins,
    leaves: list[TensorLeaf],
) -> dict[tuple[str, str], Derivation]:
    """The derivations of ranges by their SHA-256: tensors as stored, as float32, or transposed, or unknown.

    For a traced bundle, whose weights the library's exporter wrote. Of several equal tensors, it is the one
    whose name the range's ends with, or the first. One tensor at a time is in memory.
    """
    equal: dict[str, list[Derivation]] = {}
    for leaf in leaves:
        equal.setdefault(leaf.sha256, []).append(Derivation((leaf.name,), ("copied",), leaf.sha256))
    for name in checkpoint.tensors if not equal.keys() >= set(digests.values()) else ():
        origin = origins.of(name)
        if any(origins.stored[one].dtype not in FLOATS for one in origin.tensors):
            continue
        numbers = checkpoint.read(name)
        forms = {("as float32",): numbers, ("as float32", "transposed"): numbers.T}
        for steps, array in forms.items():
            digest = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
            rule = (*origin.steps, *steps)
            equal.setdefault(digest, []).append(Derivation(origin.tensors, rule, digest))
    unknown = Derivation((), ("written by the exporter of transformers",), None)
    return {
        (file, name): min(
            equal.get(digest, [unknown]), key=lambda one: not name.endswith(one.tensors[0:1] or ("",))
        )
        for (file, name), digest in digests.items()
    }
