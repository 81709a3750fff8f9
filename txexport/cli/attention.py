"""The command that shows attention weights."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from txexport.cli import options
from txexport.support.replaced import write_text

if TYPE_CHECKING:
    from txexport.runtime.tasks.attention import AttentionMap

MOST = 3  # keys for each query in the table


@click.command()
@options.bundle
@click.argument("text")
@click.option("--pair", help="Second text, for a model that reads pairs.")
@click.option("--target", show_default="the greedy output", help="Target text of an encoder-decoder.")
@click.option("--src-lang", help="Language of the text, for a multilingual translation model.")
@click.option("--tgt-lang", help="Language of the target.")
@click.option("--truncate", is_flag=True, help="Truncate a text that is too long, instead of an error.")
@click.option("--html", type=click.Path(path_type=Path), help="Write an HTML page to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all weights.")
@options.device
@options.dtype
def attention(
    out: Path,
    text: str,
    pair: str | None,
    target: str | None,
    src_lang: str | None,
    tgt_lang: str | None,
    truncate: bool,
    html: Path | None,
    as_json: bool,
    **load_options: Any,
) -> None:
    """Show the attention weights of every token of TEXT.

    The bundle must have been exported with --outputs attentions. Prints a table of each token's strongest
    keys, averaged over layers and heads. --json and --html give the weights of every layer and head.
    """
    from txexport.bundle import check_output
    from txexport.runtime import load

    if html is not None:
        check_output(html)
    model = load(out, **load_options)
    item = text if pair is None else (text, pair)
    maps = model.attention(item, target, src_lang=src_lang, tgt_lang=tgt_lang, truncate=truncate)
    document = {
        "model": model.manifest.model_type,
        "task": model.manifest.task,
        "text": text if pair is None else [text, pair],
        "maps": [one.to_dict() for one in maps.values()],
    }
    if html is not None:
        from txexport.inspection.attention_page import render

        write_text(html, render(document))
    if as_json:
        click.echo(json.dumps(document))
    elif html is None:
        _show(maps["cross_attentions"] if "cross_attentions" in maps else next(iter(maps.values())))


def _show(one: "AttentionMap") -> None:
    """Print a table of the keys with the largest weights of each query."""
    from rich.text import Text

    from txexport.cli.console import Console
    from txexport.support.printable import clean
    from txexport.support.terminal import FittedTable

    average = one.weights.mean(axis=(0, 1))  # (S, T)
    table = FittedTable("token", "attends to")
    for query, row in zip(one.queries, average, strict=True):
        best = (-row).argsort(kind="stable")[:MOST]
        keys = ", ".join(f"{clean(one.keys[key])} {row[key]:.2f}" for key in best if row[key] > 0)
        table.add_row(Text(clean(query)), Text(keys))
    Console(highlight=False).print(table)
