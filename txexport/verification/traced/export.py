"""`export_traced`: a bundle whose graph transformers' exporter makes, free in each size that is right."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import onnx_ir as ir

from txexport import bundle
from txexport.bundle import Manifest, TracedManifest
from txexport.bundle.form import ExportOptions
from txexport.bundle.manifest import OF_TRACED, DataFile, GraphFile, Graphs, Source
from txexport.bundle.source import place_of
from txexport.checkpoints.checkpoint import Checkpoint, chunks
from txexport.checkpoints.hub import opened
from txexport.contracts import roles
from txexport.errors import InputError, TxexportError, UnsupportedError, crashes
from txexport.exporter.bundle_writing import versions
from txexport.exporter.staging import placed
from txexport.formats import DEFAULT
from txexport.runtime.model import load
from txexport.spec import Cache
from txexport.support.arguments import arguments_from
from txexport.support.paths import sha256
from txexport.support.progress import Naming, naming
from txexport.tasks import tasks_of_method
from txexport.verification import environment
from txexport.verification.attempt import CaseProgress
from txexport.verification.process_state import undisturbed
from txexport.verification.traced.decoders import LIMIT, is_decoder, stage_of, traced_decoder
from txexport.verification.traced.originals import UNLIMITED, Original, original
from txexport.verification.traced.settling import Settled, settled
from txexport.verification.traced.steps import decoder_checks
from txexport.verification.traced.tracing import GRAPH, ports, save

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
def export_traced(arguments: TracedArguments) -> TracedManifest | Manifest:
    """Write the checkpoint `source` as a traced bundle to the folder `out`, and return its manifest.

    For classes of transformers without a family here. The library's exporter (torch.export) makes one graph.
    That of a decoder (`...ForCausalLM`) is a step over a growing cache, in the contract of the graphs for
    other clients: `load` runs it as any bundle. It must equal the class in every case. That of any other
    class is the whole forward, which `load_traced` runs. It is tried at several batches and sizes, with whole
    outputs; a dimension at which it differs is fixed, or has a least size, and the manifest says why. What
    differs at the sizes of its own trace, answers by chance or does not export is refused.

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
        place = place_of(checkpoint, out, arguments.absolute_source)
        source = Source(place.path, checkpoint.hashes(), checkpoint.repository, checkpoint.revision)
        if is_decoder(judge):
            tell("trace of a step")
            model = traced_decoder(judge, arguments.opset)
            decoder = write_decoder(folder, judge, model, arguments.opset, source, copied(checkpoint, folder))
            refuse_differences(folder, judge, tell)
            return decoder
        result = settled(judge, arguments.opset, tell)
        return write(folder, judge, result, arguments.opset, source, copied(checkpoint, folder))


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
    manifest = TracedManifest(
        model_type=judge.config.model_type,
        architecture=judge.architecture,
        opset=opset,
        graph=_graph(folder, result.model),
        data=_data(folder),
        layout={name: list(axes) for name, axes in result.layout.items()},
        sizes={axis: result.sizes[axis] for axes in result.layout.values() for axis in axes},
        varied=result.varied,
        least=result.least,
        limits=result.limits,
        source=source,
        companions=companions,
        versions=_versions(),
    )
    manifest.write(folder / bundle.MANIFEST)
    return manifest


def write_decoder(
    folder: Path, judge: Original, model: ir.Model, opset: int, source: Source, companions: dict[str, str]
) -> Manifest:
    """Write a decoder's graph, its weights and txexport.json, as of a family's graph for other clients."""
    form = ExportOptions(str(Cache.DYNAMIC), opset, only="hub", widened=True)
    graphs = Graphs({}, {roles.MODEL: _graph(folder, model)})
    longest = judge.longest
    manifest = Manifest(
        model_type=judge.config.model_type,
        task=tasks_of_method("generate")[0],
        form=form,
        formats={DEFAULT: graphs},
        data=_data(folder),
        limits={LIMIT: None if longest == UNLIMITED else longest},
        spec={"type": "decoder"},
        source=source,
        companions=companions,
        versions=_versions(),
        format=OF_TRACED,
        stages={"native": [], "hub": [stage_of(judge, model, roles.MODEL)]},
        traced=judge.architecture,
    )
    manifest.write(folder / bundle.MANIFEST)
    return manifest


def refuse_differences(folder: Path, judge: Original, tell: Naming) -> None:
    """Raise UnsupportedError at the first case of a decoder that differs, or that cannot run."""
    with load(folder, device="cpu", check=False) as model:
        for name, check in decoder_checks(judge, model).items():
            tell(name)
            try:
                failed = [one for one in check() if not one.ok]
            except (AssertionError, TxexportError) as error:
                raise UnsupportedError(f"{judge.architecture}, traced, fails at {name}: {error}") from None
            if failed:
                worst = max(failed, key=lambda one: one.error)
                difference = f"{worst.output} is off by {worst.error:.0e}"
                raise UnsupportedError(f"{judge.architecture}, traced, differs at {name}: {difference}")


def _graph(folder: Path, model: ir.Model) -> GraphFile:
    """Write a graph and its weights; return its entry in the manifest."""
    save(model, folder / GRAPH)
    return GraphFile(GRAPH, *ports(model), sha256(folder / GRAPH))


def _data(folder: Path) -> dict[str, DataFile]:
    path = folder / roles.data_path(GRAPH)
    return {roles.data_path(GRAPH): DataFile(path.stat().st_size, sha256(path))} if path.exists() else {}


def _versions() -> dict[str, str]:
    return versions() | {"torch": environment.version("torch")}
