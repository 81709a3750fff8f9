"""python -m proving exhaustive|mutants|configs|pages: proofs of tiny models, recorded beside this file."""

import json
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).parent
LIBRARIES = ("transformers", "torch", "onnxruntime", "onnx")
SECONDS = 900  # of one family


@click.group(help=__doc__)
def main() -> None:
    """See the module."""
    warnings.filterwarnings("ignore")


jobs = click.option("--jobs", default=2, show_default=True, help="Families at a time.")
again = click.option("--again", is_flag=True, help="Also families that are recorded already.")
families = click.argument("families", nargs=-1)


@main.command()
@families
@jobs
@again
def exhaustive(families: tuple[str, ...], jobs: int, again: bool) -> None:
    """Every mask, split and rewind of a bounded size, for all families or those named."""
    import tiny_checkpoint

    from proving.exhaustive import tried

    _record("exhaustive.json", tried, families or tuple(tiny_checkpoint.FAMILIES), jobs, again)


@main.command()
@families
@jobs
@again
def mutants(families: tuple[str, ...], jobs: int, again: bool) -> None:
    """Every small change of the graphs of the families named."""
    from proving.mutants import tried

    _record("mutants.json", tried, families, jobs, again)


@main.command()
@families
@jobs
@again
def configs(families: tuple[str, ...], jobs: int, again: bool) -> None:
    """Other values of every key of config.json, for all families or those named."""
    import tiny_checkpoint

    from proving.configs import tried

    _record("configs.json", tried, families or tuple(tiny_checkpoint.FAMILIES), jobs, again)


@main.command()
def pages() -> None:
    """Write the pages of docs/reference from the records."""
    from proving.pages import write

    write()


def _record(
    file: str, work: Callable[[str], dict[str, Any]], names: tuple[str, ...], jobs: int, again: bool
) -> None:
    """Do the work for each name, record it in a file, and print a line each."""
    import torch
    import transformers

    from proving.forked import forked

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    path = HERE / file
    results = json.loads(path.read_text())["families"] if path.is_file() else {}
    left = [name for name in names if again or name not in results]
    start = time.monotonic()
    for place, (name, outcome) in enumerate(forked(work, left, jobs, SECONDS), 1):
        results[name] = outcome
        versions = {one: version(one).partition("+")[0] for one in LIBRARIES}
        recorded = {"versions": versions, "families": dict(sorted(results.items()))}
        path.write_text(json.dumps(recorded, indent=1) + "\n")
        summary = outcome.get("error") or outcome.get("failed") or "right"
        seconds = time.monotonic() - start
        print(f"{place}/{len(left)} {name} {seconds:.0f} s {str(summary)[:300]}", flush=True)


if __name__ == "__main__":
    main()
