"""From a checkpoint to a bundle, streaming the weights, without PyTorch."""

import contextlib
import functools
import platform
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
from txgraphs import OPSET

from txexport import bundle, families
from txexport.bundle.manifest import DataFile, Form, GraphFile, Graphs, Manifest, Source
from txexport.bundle.source import Place, as_asked, merged, place_of
from txexport.checkpoints.checkpoint import Checkpoint, chunks
from txexport.checkpoints.hub import opened
from txexport.contracts import Port, roles
from txexport.errors import InputError, UnsupportedError, crashes
from txexport.exporter.bundle_plan import LEAST_RUNTIME, BundlePlan, to_proto
from txexport.exporter.companions import companions
from txexport.exporter.form import check_asked, written_form
from txexport.exporter.hub_files import check_genai
from txexport.exporter.in_memory import PreTrainedModel, PreTrainedTokenizer, recorded, saved
from txexport.exporter.staging import placed
from txexport.formats import DEFAULT, DTYPES, STORED
from txexport.parts import check_outputs, limits
from txexport.spec.serialization import to_dict
from txexport.support.arguments import checked
from txexport.support.paths import sha256
from txexport.support.progress import Counting, Progress, counting
from txexport.tasks import row_of

Item: TypeAlias = str | tuple[str, str]  # a text, or two

SINGLE = 2**31 - 2**24  # bytes of weights that fit into a file of protobuf's, with room for its graph
# What writes the graphs, and what makes a tokenizer.json where a checkpoint has none.
LIBRARIES = ("txexport", "onnx", "onnx-ir", "onnxscript", "numpy", "tokenizers", "transformers")


@checked
@crashes()
def export(
    source: str | Path | PreTrainedModel,
    out: str | Path,
    *,
    tokenizer: PreTrainedTokenizer | None = None,
    adapter: str | Path | None = None,
    task: str | None = None,
    model_type: str | None = None,
    cache: str | None = None,
    opset: int = OPSET,
    inline: bool = False,
    only: str | None = None,
    single_file: bool = False,
    client: str | None = None,
    dtype: str | Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    outputs: str | Sequence[str] = (),
    rope_factors: str | None = None,
    image_size: int | Sequence[int] | None = None,
    texts: str | Path | Sequence[Item] | None = None,
    absolute_source: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Write the bundle of the checkpoint `source` to the folder `out`, and return its manifest.

    `source` is a folder, a GGUF file, the name of a model on a hub ("org/name", "org/name@revision"), or a
    model of transformers in memory, beside which its `tokenizer` may be given: their own files lie beside
    `out` meanwhile. `adapter` is a LoRA adapter of PEFT, a folder or a name on a hub, which is merged into
    it. `task` defaults to the one that the adapter has a head for, or that config.json's architecture
    implies, and `model_type` is for an old config.json that does not tell its own. Beside the graphs that
    txexport runs there are those for other clients, over the same weights; `only` is "native" for the first
    alone, "hub" for the others. Of
    ours, `cache` is "static" (default) or "dynamic" and only for models that decode, `opset` is 17 to 24,
    below 24 with newer operators spelled out in older ones, and `inline` writes flat graphs without
    functions; the others are flat, of opset 21 or an older `opset`. A `single_file` holds its
    weights itself, up to 2 GB, and `client` lays graphs out for one that needs another form: "web" (those
    that browsers open, each with its weights), "openvino" (at the root), "triton" (a model repository),
    "genai" (one more graph, over onnxruntime-genai's shared buffer, of `opset`); both mean "hub". `dtype` is
    what numbers are stored as, or several, each with graphs and weights of its own: names in
    `formats.DTYPES`, in a list or with commas between them, of which the first is what one gets who asks for
    none; None is "stored" for a quantised checkpoint, its own integers, and else "float32". Parameters whose
    names match a pattern of `keep`, as "*.layers.0.*", stay float32 in every dtype. `outputs` are
    "attentions", "hidden_states" or both: those of every layer, which graphs then give too, by names and
    shapes of `output_attentions` and `output_hidden_states` in transformers; attention is then spelled
    out, and slower. `rope_factors` are "short" (default) or "long" for LongRoPE: the first end at
    original_max_position_embeddings, the second are the original's for longer sequences alone, up to
    max_position_embeddings. `image_size` is the side of images in pixels, or height and width, where that
    is not config.json's: positions are interpolated once and for all, as transformers does with
    interpolate_pos_encoding=True, and images prepared so large. `texts` calibrate every int4
    (GPTQ): a file of samples of what the model will read, one a line, or two with a tab between them (of
    an encoder-decoder, a source and its target), or the texts themselves; ONNX Runtime reads them.
    txexport.json says where the checkpoint is by the way from `out`, or with `absolute_source` by its
    absolute path. `force` replaces an existing bundle; `progress` is told bytes done and bytes in all, and
    True shows them. The bundle appears whole or not at all. Raises CheckpointError, UnsupportedError,
    BundleError, InputError, OSError for texts that cannot be read.
    """
    size = [image_size, image_size] if isinstance(image_size, int) else image_size
    with saved(source, tokenizer, Path(out), force) as folder:
        checkpoint = as_asked(merged(opened(folder), adapter), rope_factors, size)
        resolved = families.resolve(checkpoint, task, model_type)
        if resolved.note is not None:
            warnings.warn(resolved.note, stacklevel=4)
        place = recorded(source, checkpoint, Path(out), absolute_source)
        default = STORED if checkpoint.quantised else DEFAULT
        asked = Form(
            *(
                cache,
                opset,
                inline,
                only,
                single_file,
                client,
                _split(default if dtype is None else dtype),
                _listed(keep),
            ),
            outputs=_split(outputs),
            centred=True,
            widened=True,
            rope_factors=rope_factors,
            image_size=None if size is None else list(size),
        )
        check_asked(asked, checkpoint)
        form = written_form(row_of(resolved.task, resolved.spec.architecture), asked)
        check_outputs(resolved.spec, form.outputs)
        if client == roles.GENAI:
            check_genai(resolved.spec, resolved.task)
        items = None if texts is None else samples(texts, resolved, form.dtypes)
        plan = BundlePlan(checkpoint, resolved, form)
        return write_bundle(checkpoint, resolved, plan, Path(out), place, force, counting(progress), items)


def _listed(names: str | Sequence[str]) -> list[str]:
    """One name, or several, as a list."""
    return [names] if isinstance(names, str) else list(names)


def _split(names: str | Sequence[str]) -> list[str]:
    """Names as a list, which may also be one text with commas between them, as on the command line."""
    return names.split(",") if isinstance(names, str) else list(names)


def samples(
    texts: str | Path | Sequence[Item], resolved: families.Resolved, dtypes: Iterable[str]
) -> list[Item]:
    """Texts that are to calibrate what of some dtypes can be. Raises InputError where nothing can."""
    from txexport.exporter.calibration import check_reads  # which takes ONNX Runtime
    from txexport.runtime.preprocessing.text_file import items_of

    if not any(DTYPES[name].calibrates for name in dtypes):
        *able, last = (name for name, dtype in DTYPES.items() if dtype.calibrates)
        raise InputError(
            f"texts calibrate {', '.join(able)} and {last} alone, not {', '.join(dtypes)}; leave them out"
        )
    check_reads(resolved.spec, resolved.task)
    return items_of(texts)


def write_bundle(
    checkpoint: Checkpoint,
    resolved: families.Resolved,
    plan: BundlePlan,
    out: Path,
    place: Place,
    force: bool,
    progress: Counting,
    items: Sequence[Item] | None = None,
) -> Manifest:
    """Write what is planned to the folder `out`; `items` calibrate what of it can be, and is not yet.

    `place` is where txexport.json says that the checkpoint is, and its adapter.
    """
    single_file = plan.form.single_file
    if single_file:
        _check_single(plan)
    with placed(out.resolve(), checkpoint.folder, force) as folder, TemporaryDirectory(dir=folder) as aside:
        done = 0
        if items is not None:
            done = sum(file.numbers for file in plan.data.values())  # as if they were written twice
            plan = _calibrated(checkpoint, resolved, plan, Path(aside), items, progress)
        for graph in plan.graphs:
            (folder / graph.path).parent.mkdir(parents=True, exist_ok=True)
        data = _write_data(plan, folder, progress, done)
        formats = _write_graphs(plan, folder)
        if single_file:
            for name in data:
                (folder / name).unlink()
        manifest = Manifest(
            model_type=resolved.model_type,
            task=resolved.task,
            form=plan.form,
            formats=formats,
            data={} if single_file else data,
            limits=limits(resolved.spec),
            spec=to_dict(resolved.spec),
            source=Source(
                place.path, checkpoint.hashes(), checkpoint.repository, checkpoint.revision, place.adapter
            ),
            companions=_copy_companions(checkpoint, folder, plan),
            versions=versions(),
            promised=resolved.promised,
        )
        manifest.write(folder / bundle.MANIFEST)
        if row_of(resolved.task, resolved.spec.architecture).methods[0] == "generate":
            _tell_templates(folder)
    return manifest


def _calibrated(
    checkpoint: Checkpoint,
    resolved: families.Resolved,
    plan: BundlePlan,
    aside: Path,
    items: Sequence[Item],
    progress: Counting,
) -> BundlePlan:
    """The plan with integers that the items choose, which lie in the folder `aside`."""
    from txexport.exporter.calibrating import Calibrating

    float32 = write_float32(checkpoint, resolved, aside / "float32")
    left = [name for name in plan.form.dtypes if DTYPES[name].calibrates and name not in plan.form.calibrated]
    calibrating = Calibrating(checkpoint, plan, left, aside)
    total = sum(file.numbers for file in plan.data.values())
    made = calibrating.run(float32, items, lambda share: progress(int(share * total), 2 * total))
    form = replace(plan.form, calibrated=plan.form.calibrated | made)
    before = plan.integers

    def integers(dtype: str, name: str) -> np.ndarray:
        return calibrating.integers(dtype, name) if before is None or dtype in made else before(dtype, name)

    return BundlePlan(checkpoint, resolved, form, integers)


def write_float32(checkpoint: Checkpoint, resolved: families.Resolved, out: Path) -> Path:
    """Write the folder `out`: the bundle that reads the texts that calibrate."""
    form = written_form(row_of(resolved.task, resolved.spec.architecture), Form(None, OPSET, only="hub"))
    place = place_of(checkpoint, out, absolute=False)
    write_bundle(
        checkpoint, resolved, BundlePlan(checkpoint, resolved, form), out, place, False, counting(None)
    )
    return out


def _check_single(plan: BundlePlan) -> None:
    """Raise UnsupportedError for weights that no single ONNX file holds."""
    for one in plan.dtypes.values():
        if (size := sum(file.size for file in one.data.values())) > SINGLE:
            raise UnsupportedError(f"weights of {size:,} bytes are too large for a single file of 2 GB")


def versions() -> dict[str, str]:
    """The versions of what makes an export: Python, and those libraries that are installed."""
    return {**_libraries(), "python": platform.python_version()}


@functools.cache
def _libraries() -> dict[str, str]:
    """Those that are installed; to read it in their metadata takes a while."""
    result = {}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            result[name] = version(name)
    return result


def _write_data(plan: BundlePlan, folder: Path, progress: Counting, done: int) -> dict[str, DataFile]:
    """Write the files of weights; `progress` is told bytes of numbers done, with those before, and in all."""
    total, written = done + sum(file.numbers for file in plan.data.values()), done
    result = {}
    for path, file in plan.data.items():
        before = written

        def tell(numbers: int, _: int, before: int = before) -> None:
            progress(before + numbers, total)

        result[path] = DataFile(file.size, file.write(folder, tell))
        written += file.numbers
    return result


def _write_graphs(plan: BundlePlan, folder: Path) -> dict[str, Graphs]:
    """Write the ONNX files, by dtype, and have onnx's checker pass them."""
    formats = {name: Graphs({}, {}, dict(DTYPES[name].session_options)) for name in plan.form.dtypes}
    for graph, model in plan.models(folder):
        onnx.save(to_proto(model, plan.form.single_file), folder / graph.path)
        onnx.checker.check_model(folder / graph.path, full_check=True)
        inputs, outputs = (
            [_port(value) for value in ports] for ports in (model.graph.inputs, model.graph.outputs)
        )
        digest, least = sha256(folder / graph.path), model.metadata_props[LEAST_RUNTIME]
        written = GraphFile(graph.path, inputs, outputs, digest, least)
        graphs = formats[graph.dtype]
        (graphs.hub if graph in plan.hub else graphs.native)[graph.role] = written
    return formats


def _port(value: ir.Value) -> Port:
    assert value.name is not None
    assert value.dtype is not None
    assert value.shape is not None
    dims = [dim if isinstance(dim, int) else str(dim.value) for dim in value.shape]
    return Port(value.name, value.dtype.name.lower(), dims)


def _tell_templates(folder: Path) -> None:
    """Warn of chat templates that nobody can use, though the checkpoint has them."""
    from txexport.runtime.preprocessing.chat import unusable

    for message in unusable(folder):
        warnings.warn(message, stacklevel=5)


def _copy_companions(checkpoint: Checkpoint, folder: Path, plan: BundlePlan) -> dict[str, str]:
    """Write what an application needs beside the graphs; SHA-256 by name."""
    digests = {}
    for name, content in companions(checkpoint, plan):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as copy:
            copy.writelines(chunks(content) if isinstance(content, Path) else [content])
        digests[name] = sha256(path)
    return digests
