"""The command that says how to run a bundle fastest here."""

import json
from pathlib import Path
from typing import Any

import click

from txexport.cli.options import bundle, texts_file
from txexport.support.paths import write_text
from txexport.support.printable import line


@click.command()
@bundle
@texts_file
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    show_default="as many as there are, then fewer",
    help="Threads of one operator, of every candidate.",
)
@click.option(
    "--loss",
    type=click.FloatRange(0, 1),
    default=0.01,
    show_default=True,
    help="Most that the one to take may lose: of answers, of cosine, or of perplexity.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Timed, of each.")
@click.option(
    "--max-new-tokens", type=click.IntRange(min=1), default=32, show_default=True, help="Greedy ones."
)
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw it here too, as .svg.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def bench(out: Path, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Which engine, dtype, precision and threads run BUNDLE fastest on this machine, and answer rightly.

    All that are installed and that the bundle has are opened at once, answer the same texts, and are timed in
    turn: the first text alone, all of them, and a batch, or a prompt and each token after it. Answers are
    held against float32's in ONNX Runtime; what is fast and wrong is named, and not chosen.
    """
    from rich.text import Text

    from txexport.benchmark import bench as run
    from txexport.cli.console import Console

    if plot is not None and plot.suffix.lower() != ".svg":
        raise click.BadParameter(f"'{plot}' does not end in .svg", param_hint="--plot")
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
