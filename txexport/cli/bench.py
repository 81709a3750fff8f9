"""The command that finds the fastest way to run a bundle."""

import json
from pathlib import Path
from typing import Any

import click

from txexport.cli.options import bundle, plot_file, texts_file
from txexport.support.printable import line
from txexport.support.replaced import write_text


@click.command()
@bundle
@texts_file
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    show_default="all cores, then fewer",
    help="Threads of one operator, for every candidate.",
)
@click.option(
    "--loss",
    type=click.FloatRange(0, 1),
    default=0.01,
    show_default=True,
    help="Maximum share of answers, cosine or perplexity that the recommended one may lose.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Timed rounds of each candidate.",
)
@click.option(
    "--max-new-tokens",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="Number of generated tokens.",
)
@plot_file
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(out: Path, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Find the engine, dtype, precision and threads that run BUNDLE fastest, with accurate answers.

    All installed engines and all dtypes of the bundle answer the same texts, and are timed in turn: the first
    text alone, all of them, and a batch; or a prompt and each token after it. Answers are compared with those
    of float32 in ONNX Runtime; inaccurate candidates are listed and not recommended.
    """
    from rich.text import Text

    from txexport.benchmark import bench as run
    from txexport.cli.console import Console

    with Console(stderr=True).status("loading") as status:
        result = run(out, **options, progress=lambda step: status.update(Text(line(step))))
    if plot is not None:
        from txexport.benchmark.plot import svg

        write_text(plot, svg(result))
    if as_json:
        click.echo(json.dumps(result.to_dict()))
        return
    from txexport.benchmark.table import render

    Console(highlight=False).print(render(result))
