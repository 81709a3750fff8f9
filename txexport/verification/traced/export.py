"""The bundle that `export_traced` writes: transformers' exporter makes its graph, free in each right size."""

from collections.abc import Callable, Mapping
from pathlib import Path

import onnx_ir as ir

from txexport import bundle
from txexport.bundle import Manifest, TracedManifest
from txexport.bundle.manifest import DataFile, GraphFile, Source
from txexport.bundle.source import place_of
from txexport.checkpoints.checkpoint import Checkpoint, chunks
from txexport.checkpoints.hub import opened
from txexport.checkpoints.tokenizer_conversion import TOKENIZER, tokenizer_json
from txexport.contracts import roles
from txexport.errors import InputError, TxexportError, UnsupportedError, crashes
from txexport.exporter.bundle_writing import versions
from txexport.exporter.companions import tokenizer_as_read
from txexport.exporter.staging import placed
from txexport.runtime.model import load
from txexport.spec import Cache
from txexport.support.paths import sha256
from txexport.support.progress import Naming, naming
from txexport.verification import environment
from txexport.verification.checks import SkipError
from txexport.verification.process_state import undisturbed
from txexport.verification.traced.arguments import OPSETS, TracedArguments
from txexport.verification.traced.decoders import is_decoder, traced_decoder
from txexport.verification.traced.free_axes import traced_graph
from txexport.verification.traced.manifests import (
    BundleFiles,
    decoder_manifest,
    one_pass_manifest,
    sequence_manifest,
)
from txexport.verification.traced.originals import Original, original
from txexport.verification.traced.reasons import plain
from txexport.verification.traced.sequences import checks_of, is_sequence, traced_sequence
from txexport.verification.traced.tracing import GRAPH, ports, save


@crashes()
@undisturbed
def write(arguments: TracedArguments) -> TracedManifest | Manifest:
    """Write a traced bundle; return its manifest. `txexport.export_traced` describes it."""
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
        files = companion_files(checkpoint, judge.config.model_type)
        make, models = _traced(judge, arguments.opset, tell)
        graphs = {role: _graph(folder, _path(role), model) for role, model in models.items()}
        written = BundleFiles(graphs, _data(folder, graphs), source, _copied(folder, files), _versions())
        manifest = make(written)
        manifest.write(folder / bundle.MANIFEST)
        if isinstance(manifest, Manifest):
            refuse_differences(folder, judge, tell)
    return manifest


def _traced(
    judge: Original, opset: int, tell: Naming
) -> tuple[Callable[[BundleFiles], TracedManifest | Manifest], dict[str, ir.Model]]:
    """The function that makes the manifest, and the graphs by role."""
    if is_sequence(judge):
        tell("traces of the source and of a step")
        return lambda written: sequence_manifest(judge, written, opset), traced_sequence(judge, opset)
    if is_decoder(judge):
        tell("trace of a step")
        model = traced_decoder(judge, opset)
        return lambda written: decoder_manifest(judge, written, opset), {roles.MODEL: model}
    result = traced_graph(judge, opset, tell)
    return lambda written: one_pass_manifest(judge, written, opset, result), {roles.MODEL: result.model}


def _path(role: str) -> str:
    """The file of a traced graph in its bundle."""
    return GRAPH if role == roles.MODEL else roles.native_path(role, Cache.DYNAMIC)


def companion_files(checkpoint: Checkpoint, model_type: str) -> dict[str, Path | bytes]:
    """The checkpoint's settings and tokenizer, by name, with tokenizer.json as transformers reads it."""
    files = checkpoint.companions()
    tokenizer = files.get(TOKENIZER)
    if isinstance(tokenizer, Path):
        return files | tokenizer_as_read(tokenizer, files, checkpoint.config)
    converted = tokenizer_json(checkpoint.folder, model_type)
    return files if converted is None else files | {TOKENIZER: converted.encode()}


def _copied(folder: Path, files: Mapping[str, Path | bytes]) -> dict[str, str]:
    """Write files into a bundle; return their SHA-256 by name."""
    digests = {}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as copy:
            copy.writelines(chunks(content) if isinstance(content, Path) else [content])
        digests[name] = sha256(path)
    return digests


def refuse_differences(folder: Path, judge: Original, tell: Naming) -> None:
    """Raise UnsupportedError at the first case of steps that differs, or that cannot run."""
    with load(folder, device="cpu", check=False) as model:
        for name, check in checks_of(judge, model).items():
            tell(name)
            try:
                failed = [one for one in check() if not one.ok]
            except SkipError:
                continue
            except (AssertionError, TxexportError) as error:
                reason = plain(str(error))
                raise UnsupportedError(f"{judge.architecture}, traced, fails at {name}: {reason}") from None
            if failed:
                worst = max(failed, key=lambda one: one.error)
                difference = f"{worst.output} is off by {worst.error:.0e}"
                raise UnsupportedError(f"{judge.architecture}, traced, differs at {name}: {difference}")


def _graph(folder: Path, file: str, model: ir.Model) -> GraphFile:
    """Write a graph and its weights; return its entry in the manifest."""
    save(model, folder / file)
    return GraphFile(file, *ports(model), sha256(folder / file))


def _data(folder: Path, graphs: Mapping[str, GraphFile]) -> dict[str, DataFile]:
    """The files of the graphs' weights, which few lack."""
    paths = (roles.data_path(graph.file) for graph in graphs.values())
    written = {path: folder / path for path in paths if (folder / path).exists()}
    return {path: DataFile(file.stat().st_size, sha256(file)) for path, file in written.items()}


def _versions() -> dict[str, str]:
    return versions() | {"torch": environment.version("torch")}
