"""The command that shows what a model attends to."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from txexport.cli import options
from txexport.support.paths import write_text

if TYPE_CHECKING:
    from txexport.runtime.tasks.attention import AttentionMap

MOST = 3  # keys of a query in the table


@click.command()
@options.bundle
@click.argument("text")
@click.option("--pair", help="A second text, for a model that reads two.")
@click.option("--target", show_default="what it generates greedily", help="What a translator writes.")
@click.option("--src-lang", help="Language of the text, for a translator between many.")
@click.option("--tgt-lang", help="Language of the target.")
@click.option("--truncate", is_flag=True, help="Cut a text that is too long, which is otherwise an error.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a page to look at, of one file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: all weights.")
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
    """What every token of TEXT attends to, in every layer and head.

    The bundle must have been exported with --outputs attentions. A table of each token's strongest keys, on
    average of all heads; all weights with --json, or on a page with --html.
    """
    from txexport.runtime import load

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
    """A table of the keys that each query takes most of."""
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
