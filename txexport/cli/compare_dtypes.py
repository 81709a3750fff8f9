"""The command that compares the dtypes of a bundle."""

import json
from pathlib import Path
from typing import Any

import click

from txexport.cli.options import bundle, device, plot_file, texts_file
from txexport.support.printable import line
from txexport.support.replaced import write_text


@click.command()
@bundle
@texts_file
@click.option(
    "--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Timed rounds of each dtype."
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
@device
def compare_dtypes(out: Path, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Compare size, accuracy and speed of the dtypes of BUNDLE with its float32, or its first one.

    All dtypes of a bundle, such as one of `export --dtype float32,int8,int4`, read the same texts, and are
    timed in turn. Embeddings are compared by cosine and nearest neighbours, generated text by perplexity and
    greedy tokens, all others by their answers.
    """
    from rich.text import Text

    from txexport.cli.console import Console
    from txexport.dtype_comparison import compare_dtypes as run

    with Console(stderr=True).status("loading") as status:
        result = run(out, **options, progress=lambda step: status.update(Text(line(step))))
    if plot is not None:
        from txexport.dtype_comparison.plot import svg

        write_text(plot, svg(result))
    if as_json:
        click.echo(json.dumps(result.to_dict()))
        return
    from txexport.dtype_comparison.table import render

    Console(highlight=False).print(render(result))
