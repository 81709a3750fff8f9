"""The command tools/exportbench."""

import logging
import tempfile
import warnings
from pathlib import Path

import click

from export_bench import page, score

RESULTS = Path(__file__).parent / "results.json"


@click.group()
def main() -> None:
    """Small right and wrong ONNX exports, and a score for whoever judges exports."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)


@main.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1)
@click.option("--seed", default=0, show_default=True, help="Seed of the checkpoints.")
def make(out: Path, names: tuple[str, ...], seed: int) -> None:
    """Write the entries, or those of NAMES, to the folder OUT."""
    count = len(_make(out, names, seed))
    print(f"{count} entries in {out}")


@main.command(name="score")
@click.option(
    "--checker", "names", multiple=True, type=click.Choice(list(score.CHECKERS)), help="Repeatable."
)
@click.option("--from", "folder", type=click.Path(path_type=Path), help="Entries that `make` wrote.")
@click.option("--entry", "entries", multiple=True, help="Only this entry; repeatable.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="Where outcomes go.")
def score_checkers(
    names: tuple[str, ...], folder: Path | None, entries: tuple[str, ...], results: Path
) -> None:
    """Run checkers over the entries, and record their outcomes."""
    if folder is not None:
        score.score(folder, results, names, entries)
        return
    with tempfile.TemporaryDirectory() as temporary:
        _make(Path(temporary), (), 0)
        score.score(Path(temporary), results, names, entries)


@main.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="Recorded outcomes.")
def table(results: Path) -> None:
    """Write docs/reference/exportbench.md from the recorded outcomes."""
    page.write(results)


def _make(out: Path, names: tuple[str, ...], seed: int) -> list[str]:
    import transformers

    from export_bench.make import make as make_entries

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return make_entries(out, names, seed)


if __name__ == "__main__":
    main()
