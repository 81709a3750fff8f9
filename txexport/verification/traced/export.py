"""The bundle that `export_traced` writes: transformers' exporter makes its graph, free in each right size."""

from collections.abc import Mapping
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
from txexport.support.paths import sha256
from txexport.support.progress import Naming, naming
from txexport.verification import environment
from txexport.verification.checks import SkipError
from txexport.verification.process_state import undisturbed
from txexport.verification.traced.arguments import OPSETS, TracedArguments
from txexport.verification.traced.decoders import is_decoder, traced_decoder
from txexport.verification.traced.free_axes import traced_graph
from txexport.verification.traced.manifests import BundleFiles, decoder_manifest, one_pass_manifest
from txexport.verification.traced.originals import Original, original
from txexport.verification.traced.steps import decoder_checks
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
        result = None if is_decoder(judge) else traced_graph(judge, arguments.opset, tell)
        if result is None:
            tell("trace of a step")
        model = traced_decoder(judge, arguments.opset) if result is None else result.model
        written = BundleFiles(
            _graph(folder, model), _data(folder), source, _copied(folder, files), _versions()
        )
        manifest: Manifest | TracedManifest = (
            decoder_manifest(judge, written, arguments.opset)
            if result is None
            else one_pass_manifest(judge, written, arguments.opset, result)
        )
        manifest.write(folder / bundle.MANIFEST)
        if result is None:
            refuse_differences(folder, judge, tell)
    return manifest


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
    """Raise UnsupportedError at the first case of a decoder that differs, or that cannot run."""
    with load(folder, device="cpu", check=False) as model:
        for name, check in decoder_checks(judge, model).items():
            tell(name)
            try:
                failed = [one for one in check() if not one.ok]
            except SkipError:
                continue
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
