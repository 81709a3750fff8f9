"""Commands that write a bundle."""

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from txexport.cli import options

samples = click.option(
    "--texts",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Calibrate int4, int4-128 and their -fast kinds by samples of what the model will read: a file, one "
    "text a line; sources and targets with a tab between them.",
)


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@options.adapter("A LoRA adapter of PEFT to merge into it: a folder, or org/name of a model hub.")
@click.option(
    "--task",
    show_default="what config.json's architecture implies",
    help="What the model is for: `txexport families` lists tasks.",
)
@options.model_type
@click.option(
    "--cache", type=click.Choice(["static", "dynamic"]), show_default="static", help="Kind of cache."
)
@click.option("--opset", type=click.IntRange(17, 24), default=24, show_default=True, help="Operator set.")
@click.option("--inline", is_flag=True, help="Write flat graphs, without functions.")
@click.option(
    "--only",
    type=click.Choice(["native", "hub"]),
    show_default="both",
    help="Our runtime's graphs alone, or others'.",
)
@click.option(
    "--single-file", is_flag=True, help="Weights within each graph, up to 2 GB; others' graphs alone."
)
@click.option(
    "--for",
    "client",
    type=click.Choice(["web", "openvino", "triton", "genai"]),
    help="Another client's layout: what browsers open, graphs at the root, Triton's repository, a decoder"
    " over onnxruntime-genai's shared buffer.",
)
@click.option(
    "--dtype",
    "dtypes",
    help="How numbers are stored: float32, float16, bfloat16, int8, int8-fast, int4, int4-fast, int4-128, "
    "int4-128-fast; several with commas, the first for all who ask for none; stored and stored-fast are a "
    "quantised checkpoint's own integers.",
    show_default="float32, or stored of a quantised checkpoint",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="PATTERN",
    help="Parameters that stay float32 in every dtype, as '*.layers.0.*'; again for more.",
)
@click.option(
    "--outputs",
    help="What every layer gives too: attentions (its weights), hidden_states, or both with a comma.",
)
@click.option(
    "--rope-factors",
    type=click.Choice(["short", "long"]),
    show_default="short",
    help="Those of LongRoPE: short end at original_max_position_embeddings, long are the original's for "
    "longer sequences alone, up to max_position_embeddings.",
)
@click.option(
    "--image-size",
    metavar="N|HxW",
    callback=lambda _, __, given: _pixels(given),
    show_default="config.json's",
    help="Take images of that many pixels a side: positions are interpolated, as in transformers.",
)
@click.option(
    "--absolute-source",
    is_flag=True,
    help="Record the checkpoint's absolute path, not the way to it from OUT, which may then be moved alone.",
)
@samples
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: what was written.")
def export(
    source: Path, out: Path, dtypes: str | None, outputs: str | None, as_json: bool, **options: Any
) -> None:
    """Write the checkpoint SOURCE, a folder or a GGUF file, as the bundle folder OUT."""
    from txexport.bundle import reads_tokens
    from txexport.exporter import export as run

    manifest = _written(run, source, out, **options, dtype=_listed(dtypes), outputs=_listed(outputs) or ())
    if reads_tokens(manifest.graphs) and not (out / "tokenizer.json").is_file():
        message = (
            "the checkpoint has no tokenizer.json, and none could be made, so the bundle takes token ids only"
        )
        click.echo(f"warning: {message}", err=True)
    if manifest.limited is not None:
        click.echo(f"note: {manifest.limited}", err=True)
    click.echo(_told(out, manifest, as_json))
    from txexport.inspection.inspection import stored_integers

    if not as_json and (stored := stored_integers(out, manifest)) is not None:
        click.echo(stored)


@click.command()
@options.bundle
@click.option("--dtype", required=True, help="The one to add, as in export.")
@click.option(
    "--source", type=click.Path(path_type=Path), show_default="where it came from", help="Checkpoint."
)
@options.adapter("Its adapter.", show_default="where it came from")
@samples
@click.option("--json", "as_json", is_flag=True, help="One JSON object: what was written.")
def quantize(out: Path, dtype: str, as_json: bool, **options: Any) -> None:
    """Add a number format to BUNDLE."""
    from txexport.exporter import quantize as run

    click.echo(_told(out, _written(run, out, dtype, **options), as_json))


def _pixels(text: str | None) -> list[int] | None:
    """Height and width, None where nothing was given. Raises BadParameter for another form."""
    if text is None:
        return None
    sides = text.split("x")
    if len(sides) > 2 or not all(side.isascii() and side.isdigit() and len(side) < 6 for side in sides):
        raise click.BadParameter(f"{text!r}, expected pixels, as 384, or height and width, as 384x512")
    return [int(side) for side in (sides[0], sides[-1])]


def _listed(text: str | None) -> list[str] | None:
    """What commas part, None where nothing was given."""
    return None if text is None else text.split(",")


def _written(run: Callable[..., Any], /, *given: Any, **chosen: Any) -> Any:
    """What `run` gives, with a bar of the weights that are done, on a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing stays behind
    columns = (TextColumn("weights"), BarColumn(), DownloadColumn())
    with Progress(*columns, transient=True, disable=not sys.stderr.isatty()) as bar:
        weights = bar.add_task("", total=None)
        return run(
            *given,
            **chosen,
            progress=lambda done, total: bar.update(weights, completed=done, total=total),
        )


def _told(out: Path, manifest: Any, as_json: bool) -> str:
    """What was written, in a line."""
    from txexport.exporter.known_clients import running, told

    if as_json:
        values = asdict(manifest)
        kept = {
            name: values[name]
            for name in ("model_type", "task", "form", "formats", "limits", "promised", "data", "companions")
        }
        return json.dumps({"bundle": str(out)} | kept | {"clients": running(manifest)})
    cache = f", {manifest.cache} cache" if manifest.cache else ""
    kinds = manifest.formats.values()
    files = ", ".join(graph.file for graphs in kinds for graph in graphs.native.values())
    others = ", ".join(graph.file for graphs in kinds for graph in graphs.hub.values())
    graphs = "; ".join(filter(None, (files, others and f"for other clients {others}{told(manifest)}")))
    return f"{out}: {manifest.model_type}, {manifest.task}{cache}: {graphs}"
