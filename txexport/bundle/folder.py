"""The folder that export writes: graphs, weights, tokenizer, configs, and their manifest txexport.json."""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from txexport.bundle.manifest import MANIFEST, OLDEST, GraphFile, Manifest
from txexport.bundle.manifest_reading import parsed
from txexport.bundle.proof import ANSWERS, Proof
from txexport.bundle.swap import recover
from txexport.bundle.traced_manifest import TRACED, TracedManifest
from txexport.bundle.traced_manifest import parsed as parsed_traced
from txexport.contracts import roles
from txexport.contracts.names import INPUT_FEATURES, INPUT_IDS, INPUT_VALUES, PIXEL_VALUES
from txexport.errors import BundleError
from txexport.parts import roles_of
from txexport.spec import ModelSpec
from txexport.spec.serialization import from_dict
from txexport.support.near_names import near_paths
from txexport.support.paths import CHAT_TEMPLATES, OF_LANGUAGE_MODEL, links_out, sha256, stays_inside

MEDIA = (PIXEL_VALUES, INPUT_FEATURES, INPUT_VALUES)
DENSE = "dense.npz"  # beside the config.json of a dense layer of sentence vectors
OLD_WEIGHTS = "weights.safetensors"  # of bundles up to format 4
READ = re.compile(  # what a loaded bundle looks for by itself
    r"(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|preprocessor_config|processor_config"
    r"|vocab|added_tokens|alphabet|modules|sentence_bert_config|config_sentence_transformers|chat_template)\.json|chat_template\.jinja"
    rf"|{CHAT_TEMPLATES}/[^/]+\.jinja"
    rf"|{OF_LANGUAGE_MODEL.pattern}"
    r"|.+/(config\.json|dense\.npz)"
)
MODULE = re.compile(r"[0-9]\w*")  # a folder of sentence-transformers' modules, which export copies
# Files of model hubs and operating systems, which txexport ignores.
UNREAD = re.compile(r"\.gitattributes|\.gitignore|README\.md|LICENSE(\.\w+)?|\.cache/.*|\.DS_Store")
DRAFT = re.compile(rf"{re.escape(MANIFEST)}\.[0-9]+")  # of a txexport.json that is being written


def reads_tokens(graphs: Mapping[str, GraphFile]) -> bool:
    """Tell whether a graph takes token ids."""
    return any(port.name == INPUT_IDS for graph in graphs.values() for port in graph.inputs)


def reads_media(graphs: Mapping[str, GraphFile]) -> bool:
    """Tell whether a graph takes what is made from images or sounds."""
    return any(port.name in MEDIA for graph in graphs.values() for port in graph.inputs)


def read_json(path: Path, missing: dict | list | None = None):
    """The object in a bundle's JSON file, or the list if `missing` is a list.

    Returns `missing` if there is no file; if `missing` is None, or the file is damaged, raises BundleError.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if missing is None:
            raise BundleError(f"{path.parent} is incomplete: {path.name} is missing; export again") from None
        return missing
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path} cannot be read as JSON: {error}") from None
    kind = list if isinstance(missing, list) else dict
    if not isinstance(value, kind):
        raise BundleError(f"{path} holds a {type(value).__name__}, expected a {kind.__name__}")
    return value


def read(folder: str | Path) -> Manifest:
    """The manifest of a bundle, after a check that its graphs and weights are there.

    Raises BundleError if `folder` is no bundle, is incomplete, has a link that leads out of it, or comes from
    a newer txexport.
    """
    manifest = read_manifest(Path(folder))
    _check_complete(Path(folder), manifest)
    return manifest


def read_traced(folder: str | Path) -> TracedManifest:
    """The manifest of a traced bundle, as `read`; also raises BundleError if the bundle is not traced."""
    manifest = read_any(folder)
    if not isinstance(manifest, TracedManifest):
        raise BundleError(f"{folder} has a task of its own, {manifest.task}; open it with load")
    return manifest


def read_any(folder: str | Path) -> Manifest | TracedManifest:
    """The manifest of a bundle of any kind, as `read`."""
    manifest = _any_manifest(Path(folder))
    _check_complete(Path(folder), manifest)
    return manifest


def is_traced(folder: Path) -> bool:
    """Tell whether `folder` is a traced bundle. Raises BundleError for a damaged txexport.json."""
    if not is_bundle(folder):
        return False
    values = read_json(folder / MANIFEST)
    return values.get("kind") == TRACED or values.get("traced") is not None


def spec_of(folder: Path, manifest: Manifest) -> ModelSpec:
    """The spec of a bundle's model. Raises BundleError for a traced one, which has none."""
    if manifest.traced is not None:
        raise BundleError(
            f"{folder} is a traced bundle of {manifest.traced}, of whose components txexport knows nothing; "
            "it can be run, verified and served"
        )
    spec: ModelSpec = from_dict(ModelSpec, manifest.spec)
    return spec


def _check_complete(folder: Path, manifest: Manifest | TracedManifest) -> None:
    _refuse_strange(folder)
    for name in [*manifest.data, *(graph.file for graph in manifest.every_graph)]:
        if not (folder / name).is_file():
            raise BundleError(f"{folder} is incomplete: {name} is missing; export again")


def is_bundle(folder: Path) -> bool:
    """Tell whether `folder` is a bundle, after restoring one that a killed export has moved away."""
    if not (folder / MANIFEST).is_file():
        recover(folder)
    return (folder / MANIFEST).is_file()


def _refuse_strange(folder: Path) -> None:
    for pattern in ("*", "*/*", "*/*/*"):  # the depth of a bundle's files
        for path in sorted(folder.glob(pattern)):
            if path.is_symlink() and links_out(path, folder):
                raise BundleError(f"{path} is a link out of the bundle; replace it by its target")
            if path.exists() and not (path.is_file() or path.is_dir()):  # of a pipe, reading never ends
                raise BundleError(f"{path} is neither a file nor a folder; remove it")


def present(folder: Path) -> list[str]:
    """The paths of all files below a bundle's folder; a link to a folder counts as a file.

    Links are not followed. Files of a model hub, which nothing reads, are left out, and so are remains of a
    killed verification.
    """
    result = []
    for path, folders, files in os.walk(folder):
        for name in [*files, *(name for name in folders if (Path(path) / name).is_symlink())]:
            result.append((Path(path) / name).relative_to(folder).as_posix())
    return sorted(name for name in result if not (UNREAD.fullmatch(name) or DRAFT.fullmatch(name)))


def has_linked_weights(folder: Path, manifest: Manifest) -> bool:
    """Tell whether a file of weights is a link, as in a model hub's cache; some runtimes open no links."""
    return any((folder / name).is_symlink() for name in manifest.data)


def check(folder: Path, manifest: Manifest | TracedManifest) -> None:
    """Raise BundleError if a file differs from the exported one, or a file of weights has another size.

    A file that export did not write is refused if a bundle would read it. The bytes of the weights are
    checked by `txexport verify` only: reading all of them would take longer than loading.
    """
    known = {graph.file: graph.sha256 for graph in manifest.every_graph} | manifest.companions
    for name, digest in known.items():
        if not (folder / name).is_file():
            raise BundleError(f"{folder} is incomplete: {name} is missing; export again")
        if sha256(folder / name) != digest:
            raise BundleError(f"{folder / name} is not the file that was exported; export again")
    for name in present(folder):
        path = folder / name
        if name not in manifest.files and (READ.fullmatch(name) or path.is_dir()):
            raise BundleError(
                f"{path} is not part of this export, but would be read; move it away, or export again"
            )
    for name, data in manifest.data.items():
        if (size := (folder / name).stat().st_size) != data.bytes:
            raise BundleError(f"{folder / name} is {size:,} bytes, expected {data.bytes:,}; export again")


def check_runs(folder: Path, manifest: Manifest) -> None:
    """Raise BundleError if the bundle has no graphs for our runtime."""
    if manifest.traced is not None:
        return
    if manifest.graphs.keys() - {roles.SHARED} != set(roles_of(from_dict(ModelSpec, manifest.spec))):
        raise BundleError(f"{folder} has only graphs for other clients; to run it, export without --only hub")


def read_manifest(folder: Path) -> Manifest:
    """The manifest in txexport.json; other files may be missing. Raises BundleError as `read` does."""
    manifest = _any_manifest(folder)
    if isinstance(manifest, TracedManifest):
        raise BundleError(
            f"{folder} is a traced bundle of {manifest.architecture}, which has one graph and no tasks; "
            "load_traced and txexport verify open it"
        )
    return manifest


def _any_manifest(folder: Path) -> Manifest | TracedManifest:
    """The manifest of a bundle of either kind."""
    path = folder / MANIFEST
    if not is_bundle(folder):
        advice = "make one with txexport export"
        if not folder.exists():
            near = near_paths(folder, otherwise=advice)
            raise BundleError(f"{folder} is not a bundle: there is no such folder{near}")
        missing = f"it has no {MANIFEST}" if folder.is_dir() else "it is a file"
        raise BundleError(f"{folder} is not a bundle: {missing}; {advice}")
    values = read_json(path)
    return parsed_traced(path, values) if values.get("kind") == TRACED else parsed(path, values)


def listed_files(folder: Path) -> list[str]:
    """The files of a bundle of either kind, as paths below its folder. Raises BundleError as `read` does."""
    return _any_manifest(folder).files


def module_folder(module: dict) -> str:
    """The folder of an entry of modules.json, "" for the bundle's own folder.

    Raises BundleError for a folder that export does not copy.
    """
    path = module.get("path", "")
    if path != "" and not (isinstance(path, str) and MODULE.fullmatch(path)):
        raise BundleError(f"modules.json names {path!r}, expected a folder within the bundle, as 1_Pooling")
    return path


def older_files(folder: Path) -> list[str]:
    """The files of a bundle of an older txexport, as its txexport.json lists them.

    Raises BundleError for a folder that is no such bundle.
    """
    values = read_json(folder / MANIFEST)
    try:
        if not 0 < values["format"] < OLDEST:
            raise ValueError(values["format"])
        old = "graphs" in values  # up to format 4
        graphs = [values["graphs"]] if old else [values["native"], values["hub"]]
        names = [graph["file"] for one in graphs for graph in one.values()]
        names += [*values["companions"], *([OLD_WEIGHTS] if old else values["data"])]
        return [MANIFEST, *(name for name in names if stays_inside(name))]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{folder / MANIFEST} is no older bundle's: {error!r}") from None


def files_sha256(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a bundle, read anew; that of txexport.json is without its proof."""
    result = {MANIFEST: _any_manifest(folder).sha256}
    for name in present(folder):
        if name != MANIFEST and (folder / name).is_file():
            result[name] = sha256(folder / name)
    return result


def record(folder: Path, proof: Proof, answers: bytes | None = None) -> None:
    """Write a proof into txexport.json atomically, and the content of ANSWERS, which without any is removed.

    Raises OSError if the folder cannot be written.
    """
    digests = {name: digest for name, digest in proof.sha256.items() if name != ANSWERS}
    if answers is not None:
        digests[ANSWERS] = hashlib.sha256(answers).hexdigest()
    manifest = dataclasses.replace(_any_manifest(folder), proof=dataclasses.replace(proof, sha256=digests))
    drafts = {folder / MANIFEST: folder / f"{MANIFEST}.{os.getpid()}"}
    try:
        manifest.write(drafts[folder / MANIFEST])
        if answers is not None:
            drafts[folder / ANSWERS] = folder / f"{MANIFEST}.{os.getpid()}0"
            drafts[folder / ANSWERS].write_bytes(answers)
        for path, draft in drafts.items():
            draft.replace(path)
        if answers is None:
            (folder / ANSWERS).unlink(missing_ok=True)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
