"""The content of a checkpoint or a bundle, and the costs of running it, counted without running it."""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from txexport import bundle, families
from txexport.bundle.form import Calibration
from txexport.bundle.limits import limited
from txexport.bundle.proof import Proof
from txexport.checkpoints.checkpoint import Checkpoint, read_header
from txexport.checkpoints.stored import Stored
from txexport.checkpoints.weight_resolution import stored_names
from txexport.errors import InputError
from txexport.families import Resolved
from txexport.formats import DEFAULT, DTYPES
from txexport.inspection import flops, parameter_count
from txexport.inspection.anatomy import StackParts, anatomy
from txexport.inspection.costs import LengthCosts, by_dtype, by_length
from txexport.inspection.flops import CacheBytes, Pass
from txexport.inspection.graph_stats import GraphFacts, read_graph
from txexport.inspection.parameter_count import Parameters
from txexport.inspection.placement import Placement, placements
from txexport.inspection.summary import outline
from txexport.parts import architecture_of, limits
from txexport.parts.inputs import reads_tokens
from txexport.spec import ModelSpec
from txexport.spec.serialization import to_dict
from txexport.support.arguments import checked

if TYPE_CHECKING:
    from txexport.runtime.engines.kernels import Kernels

LENGTH = 512


@dataclass(frozen=True)
class WeightBytes:
    """Bytes of weights: the checkpoint's tensors by type, None for a bundle; and those of a bundle.

    `dtypes` has the bytes for each dtype of a bundle; for a checkpoint, for each possible dtype.
    """

    checkpoint: dict[str, int] | None
    bundle: int
    dtypes: dict[str, int]


@dataclass(frozen=True)
class BundleFacts:
    """Facts about a bundle alone: the kind of its cache, its graphs by file, bytes of its files, versions.

    `proof` is what verify last found, None before; `changed` are files that differ from those that it
    read, new and missing ones included. `kernels` are those of ONNX Runtime by graph, of the graphs that
    `load` runs and that multiply integers, `placements` those of a provider by graph; None if not requested.
    `dtypes` are those that it is written in, with the bytes of their weights; other facts about weights are
    of the first. `stored` is the line of `stored_integers`; `calibrated` describes the calibration texts.
    """

    cache: str | None
    opset: int
    graphs: dict[str, GraphFacts]
    files: dict[str, int]
    versions: dict[str, str]
    source: str
    adapter: str | None
    proof: Proof | None
    changed: list[str]
    kernels: dict[str, "Kernels"] | None = None
    dtypes: dict[str, int] = field(default_factory=dict)
    stored: str | None = None
    calibrated: dict[str, Calibration] = field(default_factory=dict)
    placements: dict[str, Placement] | None = None


@dataclass(frozen=True)
class Inspection:
    """A model, and its costs for `batch` rows of `length` tokens.

    `architecture` is a line for each stack. `prefill`, of each stack that reads whole rows, `step`, `cache`
    and `scores_bytes` are as the functions of those names in `flops` say; `step` and `cache` are None where
    nothing decodes. `parts` are where parameters, operations and cache are, `by_length` costs of one row of
    other lengths. `limited` is a line where sequences are shorter than config.json promises, else None.
    `bundle` is None for a checkpoint.
    """

    path: str
    model_type: str
    task: str
    architecture: dict[str, str]
    length: int
    batch: int
    parameters: Parameters
    prefill: dict[str, Pass]
    step: Pass | None
    cache: CacheBytes | None
    scores_bytes: int
    weights: WeightBytes
    bundle: BundleFacts | None
    spec: ModelSpec
    parts: list[StackParts]
    by_length: list[LengthCosts]
    limited: str | None = None

    def to_dict(self) -> dict:
        """The whole tree as plain JSON values."""
        return dataclasses.asdict(self) | {"spec": to_dict(self.spec)}


@checked
def inspect(
    path: str | Path,
    *,
    task: str | None = None,
    model_type: str | None = None,
    length: int | None = None,
    batch: int = 1,
    kernels: bool = False,
    provider: str | None = None,
) -> Inspection:
    """Read the checkpoint or bundle folder `path`, and count what it costs to run.

    `task` and `model_type` are as in `export`, and only for a checkpoint. `length` defaults to 512 tokens, or
    the longest sequence of the model where that is less. `kernels` opens a bundle's quantised graphs in ONNX
    Runtime, to see which products it multiplies as integers. `provider`, such as "cuda", tells where that
    provider of ONNX Runtime would compute each node of a bundle; its device is not needed. Raises
    CheckpointError, UnsupportedError, BundleError, InputError.
    """
    folder = Path(path)
    if batch < 1:
        raise InputError(f"batch is {batch}, expected 1 or more")
    if bundle.is_bundle(folder):
        for name, value in (("task", task), ("model-type", model_type)):
            if value is not None:
                raise InputError(f"{folder} is a bundle and has its {name}; --{name} is for checkpoints")
        return _of_bundle(folder, length, batch, kernels, provider)
    for name, wanted in (("kernels", kernels), ("provider", provider)):
        if wanted:
            raise InputError(f"{folder} is a checkpoint and has no graphs; --{name} is for bundles")
    return _of_checkpoint(folder, task, model_type, length, batch)


def _of_checkpoint(
    folder: Path, task: str | None, model_type: str | None, length: int | None, batch: int
) -> Inspection:
    checkpoint = Checkpoint(folder)
    resolved = families.resolve(checkpoint, task, model_type)
    stored_once = set(stored_names(resolved.weights).values())
    stored: Counter[str] = Counter()
    for tensor in checkpoint.tensors.values():
        stored[tensor.dtype] += tensor.nbytes
    dtypes = _written(resolved)
    weights = WeightBytes(dict(stored), dtypes[DEFAULT], dtypes)
    result = _inspection(
        folder, resolved.model_type, resolved.task, resolved.spec, stored_once, weights, length, batch
    )
    return dataclasses.replace(result, limited=limited(limits(resolved.spec), resolved.promised))


def _written(resolved: Resolved) -> dict[str, int]:
    """The bytes of a bundle's weights by dtype: an encoder before a decoder has a file of its own."""
    spec, weights = resolved.spec, dict(resolved.weights)
    decoding = flops.decoding_of(spec)
    files = [set(weights)]
    if decoding is not None and decoding.source is not None:
        source = {name for name in weights if name.startswith(f"{decoding.source}.")}
        for second, first in architecture_of(spec).shared(spec).items():
            weights[second] = weights[first]
        files = [source, weights.keys() - source]
    return by_dtype(spec, weights, files)


def _of_bundle(
    folder: Path, length: int | None, batch: int, kernels: bool, provider: str | None
) -> Inspection:
    manifest = bundle.read(folder)
    spec = bundle.spec_of(folder, manifest)
    stored = {dtype: _stored(folder, manifest.of_dtype(dtype)) for dtype in manifest.formats}
    tensors = stored[manifest.dtype]
    facts = BundleFacts(
        cache=manifest.cache,
        opset=manifest.form.opset,
        graphs={graph.file: read_graph(folder / graph.file) for graph in manifest.every_graph},
        files={name: (folder / name).stat().st_size for name in manifest.files if (folder / name).is_file()},
        versions=manifest.versions,
        source=manifest.source.path,
        adapter=manifest.source.adapter,
        proof=manifest.proof,
        changed=_changed(folder, manifest),
        kernels=_kernels(folder, manifest) if kernels else None,
        dtypes={dtype: sum(size for _, size in each) for dtype, each in stored.items()},
        stored=stored_integers(folder, manifest),
        calibrated=manifest.form.calibrated,
        placements=None if provider is None else placements(folder, manifest, provider),
    )
    weights = WeightBytes(None, facts.dtypes[manifest.dtype], facts.dtypes)
    stored_once = {name for name, _ in tensors} - _copies(folder, manifest.of_dtype(None))
    number = manifest.form.dtype(manifest.dtype).number_bytes
    kind = manifest.model_type, manifest.task
    result = _inspection(folder, *kind, spec, stored_once, weights, length, batch, facts, number)
    return dataclasses.replace(result, limited=manifest.limited)


def _kernels(folder: Path, manifest: bundle.Manifest) -> dict[str, "Kernels"]:
    """The kernels of every graph that `load` runs in a dtype that rounds."""
    from txexport.runtime.engines.kernels import kernels

    views = [manifest.of_dtype(dtype) for dtype in manifest.formats]
    graphs = [graph for view in views if view.quantized for graph in view.graphs.values()]
    return {graph.file: kernels(folder / graph.file) for graph in graphs}


def _stored(folder: Path, manifest: bundle.Manifest) -> list[tuple[str, int]]:
    """The parameters stored in a bundle, and the bytes of each; in a single file, within its graphs."""
    if not manifest.form.single_file:
        return [
            (name, one.nbytes) for path in manifest.data for name, one in read_header(folder / path).items()
        ]
    protos = [onnx.load(folder / graph.file) for graph in manifest.every_graph]
    tensors = [tensor for proto in protos for tensor in proto.graph.initializer]
    return [(one.name, len(one.raw_data)) for one in tensors if one.data_type != onnx.TensorProto.INT64]


def stored_integers(folder: Path, manifest: bundle.Manifest) -> str | None:
    """A line on the part of a quantised checkpoint's bundle that keeps its integers; None otherwise."""
    stored = next((name for name in manifest.formats if DTYPES[name].stored), None)
    if stored is None:
        return None
    sizes = dict(_stored(folder, manifest.of_dtype(stored)))
    matrices = [name.removesuffix(".scale") for name in sizes if name.endswith(".scale")]
    if not matrices:
        return f"{stored}: no matrix keeps the checkpoint's integers, all numbers are float32"
    integers = sum(
        size for name, size in sizes.items() if name in matrices or name.rpartition(".")[0] in matrices
    )
    matrices_line = f"{len(matrices)} matrices keep the checkpoint's integers ({integers:,} bytes)"
    return f"{stored}: {matrices_line}, all else is float32 ({sum(sizes.values()) - integers:,} bytes)"


def _copies(folder: Path, manifest: bundle.Manifest) -> set[str]:
    """Tables that a decoder shares with its encoder, and that are stored in the files of both."""
    copies: set[str] = set()
    first, *others = [read_header(folder / path) for path in manifest.data] or [{}]
    for name, one in first.items():
        again = name.replace("encoder.", "decoder.", 1)
        for other in (other[again] for other in others if again in other and ".embedding." in name):
            if one.nbytes == other.nbytes and _content(one) == _content(other):
                copies.add(again)
    return copies


def _content(stored: Stored) -> bytes:
    with stored.file.open("rb") as file:
        file.seek(stored.offset)
        return file.read(stored.nbytes)


def _changed(folder: Path, manifest: bundle.Manifest) -> list[str]:
    """The files that differ from those of the proof, or exist on one side only; all are read."""
    if manifest.proof is None:
        return []
    proved, now = manifest.proof.sha256, bundle.files_sha256(folder)
    return [name for name in sorted(proved | now) if proved.get(name) != now.get(name)]


def _inspection(
    folder: Path,
    model_type: str,
    task: str,
    spec: ModelSpec,
    stored_once: set[str],
    weights: WeightBytes,
    length: int | None,
    batch: int,
    facts: BundleFacts | None = None,
    number: int = flops.NUMBER,
) -> Inspection:
    length = _fitting(spec, length)
    return Inspection(
        path=str(folder),
        model_type=model_type,
        task=task,
        architecture={name: outline(stack) for name, stack in spec.stacks.items()},
        length=length,
        batch=batch,
        parameters=parameter_count.count(spec, stored_once),
        prefill=flops.prefill(spec, length, batch),
        step=flops.step(spec, length, batch),
        cache=flops.cache(spec, length, batch, number),
        scores_bytes=flops.scores_bytes(spec, length, batch),
        weights=weights,
        bundle=facts,
        spec=spec,
        parts=anatomy(spec, stored_once, length, batch, number),
        by_length=by_length(spec, length, number),
    )


def _fitting(spec: ModelSpec, length: int | None) -> int:
    """`length`, checked against the limits of all text stacks, or the default; for a signal its own."""
    stacks = list(spec.stacks.values())
    if not any(map(reads_tokens, stacks)):
        if length is not None:
            raise InputError(
                f"length is {length}, but a model that reads no text has a fixed length; leave it out"
            )
        return flops.tokens(stacks[0], LENGTH)
    longest = min((stack.limit for stack in stacks if stack.limit is not None), default=None)
    if length is None:
        return LENGTH if longest is None else min(LENGTH, longest)
    if length < 1 or (longest is not None and length > longest):
        reach = "1 or more" if longest is None else f"1 to {longest}, the model's longest sequence"
        raise InputError(f"length is {length}, expected {reach}")
    return length
