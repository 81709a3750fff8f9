"""`export_traced`: a bundle whose graph transformers' exporter makes, free in each size that is right."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import onnx_ir as ir
from onnx import TensorProto

from txexport import bundle
from txexport.bundle import TracedManifest
from txexport.bundle.manifest import DataFile, GraphFile, Source
from txexport.bundle.source import place_of
from txexport.checkpoints.checkpoint import Checkpoint, chunks
from txexport.checkpoints.hub import opened
from txexport.contracts import Port, roles
from txexport.errors import InputError, UnsupportedError, crashes
from txexport.exporter.bundle_writing import versions
from txexport.exporter.staging import placed
from txexport.support.arguments import arguments_from
from txexport.support.paths import sha256
from txexport.support.progress import naming
from txexport.verification import environment
from txexport.verification.attempt import CaseProgress
from txexport.verification.process_state import undisturbed
from txexport.verification.traced.originals import Original, original
from txexport.verification.traced.settling import Settled, settled
from txexport.verification.traced.tracing import GRAPH, dims, save

OPSETS = range(18, 24)
DEFAULT_OPSET = 18


@dataclass(frozen=True)
class TracedArguments:
    """The arguments of `export_traced`, which describes them."""

    source: str | Path
    out: str | Path
    _: KW_ONLY
    architecture: str | None = None
    opset: int = DEFAULT_OPSET
    absolute_source: bool = False
    force: bool = False
    progress: CaseProgress | bool | None = None


@arguments_from(TracedArguments)
@crashes()
@undisturbed
def export_traced(arguments: TracedArguments) -> TracedManifest:
    """Write the checkpoint `source` as a traced bundle to the folder `out`, and return its manifest.

    For classes of transformers without a family here. The library's exporter (torch.export) makes one graph
    of the whole forward, without a cache. It is tried at several batches and sizes beside the class itself,
    with whole outputs; a dimension at which it differs is fixed, and the manifest says why. What differs at
    the sizes of its own trace, answers by chance or does not export is refused.

    `source` is a folder, or a model on a hub. `architecture` is a class of transformers, by default the one
    in config.json. `opset` is 18 to 23. `absolute_source` and `force` are those of `export`. `progress` is
    called with what is tried; True prints it. Needs PyTorch and transformers; to run the bundle needs
    neither. Raises CheckpointError, UnsupportedError, BundleError, InputError.
    """
    if arguments.opset not in OPSETS:
        raise InputError(
            f"opset is {arguments.opset}, expected {OPSETS[0]} to {OPSETS[-1]} for a traced graph"
        )
    out, tell = Path(arguments.out), naming(arguments.progress)
    checkpoint = opened(arguments.source)
    if checkpoint.gguf is not None:
        raise UnsupportedError(f"{checkpoint.folder} is a GGUF file, of which no class can be traced")
    with placed(out.resolve(), checkpoint.folder, arguments.force) as folder:
        judge = original(checkpoint.folder, arguments.architecture)
        result = settled(judge, arguments.opset, tell)
        place = place_of(checkpoint, out, arguments.absolute_source)
        source = Source(place.path, checkpoint.hashes(), checkpoint.repository, checkpoint.revision)
        manifest = write(folder, judge, result, arguments.opset, source, copied(checkpoint, folder))
    return manifest


def copied(checkpoint: Checkpoint, folder: Path) -> dict[str, str]:
    """Copy the checkpoint's settings and tokenizer into a bundle; return their SHA-256 by name."""
    digests = {}
    for name, content in checkpoint.companions().items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as copy:
            copy.writelines(chunks(content) if isinstance(content, Path) else [content])
        digests[name] = sha256(path)
    return digests


def write(
    folder: Path, judge: Original, result: Settled, opset: int, source: Source, companions: dict[str, str]
) -> TracedManifest:
    """Write the graph, its weights and txexport.json into a bundle's folder."""
    path = folder / GRAPH
    data = save(result.model, path)
    graph = result.model.graph
    manifest = TracedManifest(
        model_type=judge.config.model_type,
        architecture=judge.architecture,
        opset=opset,
        graph=GraphFile(GRAPH, list(map(_port, graph.inputs)), list(map(_port, graph.outputs)), sha256(path)),
        data={roles.data_path(GRAPH): DataFile(data.stat().st_size, sha256(data))} if data.exists() else {},
        layout={name: list(axes) for name, axes in result.layout.items()},
        sizes={axis: result.sizes[axis] for axes in result.layout.values() for axis in axes},
        varied=result.varied,
        least=result.least,
        limits=result.limits,
        source=source,
        companions=companions,
        versions=versions() | {"torch": environment.version("torch")},
    )
    manifest.write(folder / bundle.MANIFEST)
    return manifest


def _port(value: ir.Value) -> Port:
    """An input or output as a manifest lists it."""
    return Port(str(value.name), TensorProto.DataType.Name(value.dtype or 0).lower(), dims(value))
