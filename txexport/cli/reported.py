"""Options and exit code shared by the commands that return a report."""

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

REPORTED = {"quiet", "files", "json_file"}  # the options that `reported` adds


def reported(command: Callable) -> Callable:
    """Add options for the output of the Report that `command` returns. The exit code is the report's.

    It is the same if the reader closes the pipe early.
    """

    @click.option("--quiet", "-q", is_flag=True, help="Print the verdict without the cases.")
    @click.option(
        "--report",
        "files",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Also write the report to this file: .json, .md, .xml (JUnit) or .html; repeatable.",
    )
    @click.option(
        "--json",
        "json_file",
        type=click.Path(path_type=Path),
        help="Also write the report to this file in JSON, whatever its extension.",
    )
    @functools.wraps(command)
    def run(quiet: bool, files: tuple[Path, ...], json_file: Path | None, **options: Any) -> None:
        from txexport.cli.console import Console, discard_output
        from txexport.verification import reports
        from txexport.verification.environment import quiet_references
        from txexport.verification.reports import table

        wanted = [(file, reports.check(file)) for file in files]
        if json_file is not None:
            wanted.append((json_file, reports.check(json_file, ".json")))
        with quiet_references():
            report = command(**options)
        try:
            Console(highlight=False, soft_wrap=quiet).print(table.render(report, cases=not quiet))
        except BrokenPipeError:
            discard_output()
        finally:
            for file, form in wanted:
                with contextlib.suppress(BrokenPipeError):  # such as /dev/stdout
                    reports.write(report, file, form)
        sys.exit(report.exit_code)

    return run
