"""What commands that hold models against each other share: where the report goes, and the exit code."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def quiet_references() -> None:
    """Keep a library's chatter about checkpoints out of the report."""
    if "transformers" not in sys.modules:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def reported(command: Callable) -> Callable:
    """The options that say where the Report goes which `command` returns; the exit code is the report's.

    It is the verdict's whether or not somebody reads the report to its end.
    """

    @click.option("--quiet", "-q", is_flag=True, help="Print the verdict without the cases.")
    @click.option(
        "--report",
        "files",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Write the report here too, as .json, .md, .xml (JUnit) or .html; again for more.",
    )
    @click.option(
        "--json", "json_file", type=click.Path(path_type=Path), help="--report as JSON by any name."
    )
    @functools.wraps(command)
    def run(quiet: bool, files: tuple[Path, ...], json_file: Path | None, **options: Any) -> None:
        from txexport.cli.console import Console, discard_output
        from txexport.verification import reports
        from txexport.verification.reports import table

        wanted = [(file, reports.check(file)) for file in files]
        if json_file is not None:
            wanted.append((json_file, reports.check(json_file, ".json")))
        quiet_references()
        report = command(**options)
        for file, form in wanted:
            with contextlib.suppress(BrokenPipeError):  # as of /dev/stdout
                reports.write(report, file, form)
        try:
            Console(highlight=False, soft_wrap=quiet).print(table.render(report, cases=not quiet))
        except BrokenPipeError:
            discard_output()
        sys.exit(report.exit_code)

    return run
