"""The command that shows what a checkpoint or a bundle holds and costs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from txexport.cli import options
from txexport.cli.traced import traced_details
from txexport.support.replaced import write_text


@click.command()
@click.argument("path", metavar="FOLDER", type=options.Folder())
@options.task("Task of a checkpoint, as in export.")
@options.model_type
@click.option(
    "--length",
    type=click.IntRange(min=1),
    show_default="512, or the limit",
    help="Number of tokens in a row.",
)
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Number of rows.")
@click.option(
    "--kernels",
    is_flag=True,
    help="Also list the products that ONNX Runtime multiplies as integers here, for int8 and int4.",
)
@click.option(
    "--provider",
    help="Also tell where a provider of ONNX Runtime, such as cuda, would compute each node. No device "
    "is needed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    help="Also write an HTML page: a diagram of the model, its costs by length, memory and parameters.",
)
def inspect(path: Path, as_json: bool, html: Path | None, **options: Any) -> None:
    """Show the contents and costs of a checkpoint or bundle FOLDER.

    Architecture, parameters, operations and memory; for a bundle also graphs, operators, functions, files,
    and the last result of verify.
    """
    from txexport.bundle import check_output, is_traced, read_any
    from txexport.inspection import inspect as run

    if is_traced(path):
        if html is not None or any(value not in (None, False, 1) for value in options.values()):
            raise click.UsageError("a traced bundle takes no option but --json")
        manifest = read_any(path)
        click.echo(json.dumps(asdict(manifest)) if as_json else traced_details(path, manifest))
        return
    if html is not None:
        check_output(html)
    result = run(path, **options)
    if html is not None:
        from txexport.inspection.page import render as page

        write_text(html, page(result))
    if as_json:
        click.echo(json.dumps(result.to_dict()))
        return
    from txexport.cli.console import Console
    from txexport.inspection.table import render

    Console(highlight=False).print(render(result))
