"""Commands that write a bundle."""

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from txexport.bundle import read_any
from txexport.checkpoints.hub import check_local
from txexport.cli import options
from txexport.cli.traced import traced_summary
from txexport.formats import check_known
from txexport.support.aliases import dtype_named

PREPROCESSORS = ("preprocessor_config.json", "processor_config.json")  # either has the settings of files
samples = click.option(
    "--texts",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Calibrate int4, int4-128 and their -fast variants (GPTQ) on this file of texts, one per line; "
    "sources and targets separated by a tab.",
)


@click.command()
@click.argument("source", type=options.Folder())
@click.argument("out", type=options.Folder())
@options.adapter("PEFT LoRA adapter to merge: a folder, or org/name on a model hub.")
@options.task(
    "Task of the model, also by the names of pipelines, such as ner; `txexport families` lists them.",
    show_default="from `architectures` in config.json",
)
@options.model_type
@click.option(
    "--cache",
    type=click.Choice(["static", "dynamic"]),
    show_default="static",
    help="Key/value cache of fixed or growing size.",
)
@click.option(
    "--opset", type=click.IntRange(17, 24), default=24, show_default=True, help="ONNX opset version."
)
@click.option("--inline", is_flag=True, help="Inline all functions into the graphs.")
@click.option(
    "--only",
    type=click.Choice(["native", "hub"]),
    show_default="both",
    help="Write only the graphs for txexport's runtime, or only those for other clients.",
)
@click.option(
    "--single-file",
    is_flag=True,
    help="Store weights inside the graphs (up to 2 GB); only for other clients' graphs.",
)
@click.option(
    "--for",
    "client",
    type=click.Choice(["web", "openvino", "triton", "genai", "cuda"]),
    help="Layout for one client: browsers, OpenVINO, Triton's model repository, or a decoder with the shared "
    "buffer of onnxruntime-genai; or graphs for txexport's runtime on CUDA, which CUDA can capture and whose "
    "float16 computes in float16.",
)
@click.option(
    "--dtype",
    "dtypes",
    help="Number formats: float32, float16, bfloat16, int8, int8-fast, int4, int4-fast, int4-128, "
    "int4-128-fast; stored and stored-fast keep the integers of a quantised checkpoint. Other names, such as "
    "fp16 and q4, are accepted too. Separate several by commas; the first is loaded unless --dtype names "
    "another.",
    show_default="float32, or stored for a quantised checkpoint",
    shell_complete=options.complete_dtypes,
)
@click.option(
    "--keep",
    multiple=True,
    metavar="PATTERN",
    help="Parameters that stay float32 in every dtype, such as '*.layers.0.*'; repeatable.",
)
@click.option(
    "--outputs",
    help="Outputs of every layer: attentions (its weights), hidden_states, or both, separated by a comma.",
)
@click.option(
    "--rope-factors",
    type=click.Choice(["short", "long"]),
    show_default="short",
    help="Factors of LongRoPE: short for sequences up to original_max_position_embeddings, long for longer "
    "ones, up to max_position_embeddings.",
)
@click.option(
    "--image-size",
    metavar="N|HxW",
    callback=lambda _, __, text: _pixels(text),
    show_default="config.json's",
    help="Size of the images in pixels; position embeddings are interpolated, as in transformers.",
)
@click.option(
    "--language",
    metavar="CODE",
    show_default="that of the weights",
    help="Language of a checkpoint with an adapter for each, as MMS: fra for adapter.fra.safetensors.",
)
@click.option(
    "--absolute-source",
    is_flag=True,
    help="Record the absolute path of the checkpoint, so that OUT can be moved without it.",
)
@samples
@click.option(
    "--traced",
    is_flag=True,
    help="For a class without a family: export with transformers' own exporter, which needs PyTorch, and try "
    "the graph at other sizes. Only --architecture, --opset, --absolute-source, --force and --json apply "
    "with it.",
)
@click.option(
    "--architecture",
    metavar="CLASS",
    show_default="config.json's",
    help="With --traced: the class of transformers, such as BrosModel.",
)
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object that describes the bundle.")
@click.pass_context
def export(
    context: click.Context,
    source: Path,
    out: Path,
    dtypes: str | None,
    outputs: str | None,
    traced: bool,
    architecture: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Export the checkpoint SOURCE to ONNX, as the bundle folder OUT."""
    for name in _listed(dtypes) or ():  # before the slow imports, as the checkpoint
        check_known(dtype_named(name))
    if architecture is not None and not traced:
        raise click.UsageError("--architecture is for --traced; give --task")
    check_local(source)
    from txexport.bundle import reads_media, reads_tokens
    from txexport.exporter import export as run

    if traced:
        _export_traced(context, source, out, as_json)
        return
    manifest = _written(run, source, out, **options, dtype=_listed(dtypes), outputs=_listed(outputs) or ())
    if reads_tokens(manifest.graphs) and not (out / "tokenizer.json").is_file():
        message = (
            "the checkpoint has no tokenizer.json and no vocabulary that can be converted; "
            "the bundle reads token ids only"
        )
        click.echo(f"warning: {message}", err=True)
    if reads_media(manifest.graphs) and not any((out / name).is_file() for name in PREPROCESSORS):
        message = f"the checkpoint has no {PREPROCESSORS[0]}; the bundle reads arrays only, no files"
        click.echo(f"warning: {message}", err=True)
    if manifest.limited is not None:
        click.echo(f"note: {manifest.limited}", err=True)
    click.echo(_summary(out, manifest, as_json))
    from txexport.inspection.inspection import stored_integers

    if not as_json and (stored := stored_integers(out, manifest)) is not None:
        click.echo(stored)


TRACED_TAKES = ("source", "out", "traced", "architecture", "opset", "absolute_source", "force", "as_json")


def _export_traced(context: click.Context, source: Path, out: Path, as_json: bool) -> None:
    """Write a traced bundle, and print its summary. Raises UsageError for options that it does not take."""
    from rich.text import Text

    from txexport import families
    from txexport.cli.console import Console
    from txexport.verification.traced import export_traced

    options_here = [
        name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    for parameter in context.command.params:
        if parameter.name in options_here and parameter.name not in TRACED_TAKES:
            raise click.UsageError(f"{parameter.opts[0]} cannot be given with --traced")
    names = [name for name in ("architecture", "opset", "absolute_source", "force") if name in options_here]
    with Console(stderr=True).status("tracing") as status:
        manifest = export_traced(
            source,
            out,
            **{name: context.params[name] for name in names},
            progress=lambda case: status.update(Text(f"tracing: {case}")),
        )
    click.echo(
        json.dumps({"bundle": str(out)} | asdict(manifest)) if as_json else traced_summary(out, manifest)
    )
    kind = manifest.model_type
    classes = families.module(kind).TASKS.values() if kind in families.names() else ()
    if any(manifest.traced in names for names in classes):
        click.echo(f"note: {kind} has graphs of its own; leave out --traced to export them", err=True)


@click.command()
@options.bundle
@click.option(
    "--dtype",
    required=True,
    help="Number format to add, as in export.",
    shell_complete=options.complete_dtypes,
)
@click.option(
    "--source", type=click.Path(path_type=Path), show_default="where it came from", help="Checkpoint."
)
@options.adapter("Its adapter.", show_default="where it came from")
@samples
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object that describes the bundle.")
def quantize(out: Path, dtype: str, as_json: bool, **options: Any) -> None:
    """Add a number format to BUNDLE."""
    read_any(out)  # before the slow imports
    if "," in dtype:
        raise click.UsageError(f"one dtype is added at a time, not {dtype}; give one of them, and repeat it")
    check_known(dtype_named(dtype))
    from txexport.exporter import quantize as run

    click.echo(_summary(out, _written(run, out, dtype, **options), as_json))


def _pixels(text: str | None) -> list[int] | None:
    """Height and width; None if the option is absent. Raises BadParameter for any other form."""
    if text is None:
        return None
    sides = text.split("x")
    if len(sides) > 2 or not all(side.isascii() and side.isdigit() and len(side) < 6 for side in sides):
        raise click.BadParameter(
            f"{text!r}, expected pixels, such as 384, or height and width, such as 384x512"
        )
    return [int(side) for side in (sides[0], sides[-1])]


def _listed(text: str | None) -> list[str] | None:
    """The values that commas separate; None if the option is absent."""
    return None if text is None else text.split(",")


def _written(run: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """The result of `run`, with a progress bar of written weights on a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # so that temporary files are removed
    columns = (TextColumn("weights"), BarColumn(), DownloadColumn())
    with Progress(*columns, transient=True, disable=not sys.stderr.isatty()) as bar:
        weights = bar.add_task("", total=None)
        return run(
            *arguments,
            **options,
            progress=lambda done, total: bar.update(weights, completed=done, total=total),
        )


def _summary(out: Path, manifest: Any, as_json: bool) -> str:
    """A summary of the written bundle, in one line."""
    from txexport.exporter.known_clients import running, tested_clients

    if as_json:
        values = asdict(manifest)
        selected = {
            name: values[name]
            for name in ("model_type", "task", "form", "formats", "limits", "promised", "data", "companions")
        }
        return json.dumps({"bundle": str(out)} | selected | {"clients": running(manifest)})
    cache = f", {manifest.cache} cache" if manifest.cache else ""
    kinds = manifest.formats.values()
    files = ", ".join(graph.file for graphs in kinds for graph in graphs.native.values())
    others = ", ".join(graph.file for graphs in kinds for graph in graphs.hub.values())
    graphs = "; ".join(
        filter(None, (files, others and f"for other clients {others}{tested_clients(manifest)}"))
    )
    return f"{out}: {manifest.model_type}, {manifest.task}{cache}: {graphs}"
