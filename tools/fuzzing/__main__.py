"""Give txexport files and arguments that are wrong: any error but a TxexportError of one line is a fault.

\b
    tools/fuzz --count 10000
    tools/fuzz --target wav --count 500 --seed 7
    tools/fuzz --target config --only 0/1234       # repeats one, with its traceback

Each mutant is a function of seed, target and index alone, and runs in a process with limits of time and
memory. One that is still valid must be answered. Exit code 0: no fault. 1: some.
"""

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fuzzing import seeds
from fuzzing.known import known
from fuzzing.pool import run
from fuzzing.summary import Summary, line
from fuzzing.targets import TARGETS
from fuzzing.worker import Limits, Mutant

WALL = Limits.wall / Limits.processor
HINT = "SEED/INDEX"


def mutants(targets: tuple[str, ...], seed: int) -> Iterator[Mutant]:
    """An endless sequence of mutants, targets drawn by their weights."""
    turns = [name for name in targets or TARGETS for _ in range(TARGETS[name].weight)]
    counts = dict.fromkeys(turns, 0)
    while True:
        for name in turns:
            yield Mutant(name, seed, counts[name])
            counts[name] += 1


def one(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Parse SEED/INDEX."""
    if value is None:
        return None
    try:
        seed, index = map(int, value.split("/"))
    except ValueError:
        raise click.BadParameter(f"'{value}' is not {HINT}, as 0/1234") from None
    return seed, index


@click.command(help=__doc__)
@click.option(
    "--count", type=click.IntRange(min=1), default=10_000, show_default=True, help="Mutants in all."
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--target", "targets", multiple=True, type=click.Choice(list(TARGETS)), help="Only these.")
@click.option("--only", metavar=HINT, callback=one, help="Repeat one mutant of --target, with its traceback.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count(), help="Processes (default: a core each)."
)
@click.option(
    "--seconds",
    type=float,
    default=Limits.processor,
    show_default=True,
    help="Of processor, for one.",
)
@click.option("--megabytes", default=Limits.memory >> 20, show_default=True, help="Of memory, for one.")
def main(
    count: int,
    seed: int,
    targets: tuple[str, ...],
    only: tuple[int, int] | None,
    jobs: int,
    seconds: float,
    megabytes: int,
) -> None:
    """Run the command; see the module's docstring."""
    if only is not None and len(targets) != 1:
        raise click.UsageError("--only repeats a mutant of one --target; name it")
    limits = Limits(seconds, seconds * WALL, megabytes << 20)
    chosen = [Mutant(targets[0], *only)] if only else islice(mutants(targets, seed), count)
    summary, total = Summary(), 1 if only else count
    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "seeds"
        _write_seeds(path)
        console = Console(stderr=True)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task("mutants", total=total)
            start = time.monotonic()
            for mutant, result in run(chosen, path, limits, jobs):
                summary.add(mutant, result)
                bar.advance(task)
                if only:
                    bar.console.out(f"{'; '.join(result.notes)}\n{result.trace}", highlight=False)
                if result.fault is not None and known(mutant, result) is None:
                    click.echo(line(mutant, result))
            summary.seconds = time.monotonic() - start
    click.echo(summary.text())
    sys.exit(1 if summary.faults else 0)


def _write_seeds(path: Path) -> None:
    """Write the seeds in a subprocess, so that this process can be forked before it has run anything."""
    writer = multiprocessing.get_context("fork").Process(target=seeds.write, args=(path,))
    writer.start()
    writer.join()
    if writer.exitcode:
        raise click.ClickException("the seeds could not be written")


if __name__ == "__main__":
    main(prog_name="tools/fuzz")
