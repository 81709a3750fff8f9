"""The command that writes an attestation of a bundle."""

import json
import sys
from pathlib import Path

import click

from txexport.cli import options
from txexport.cli.options import bundle
from txexport.support.printable import line


@click.command()
@bundle
@click.option(
    "--source", type=click.Path(path_type=Path), show_default="where it came from", help="Checkpoint."
)
@options.adapter("Its adapter.", show_default="where it came from")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File of the statement, outside of the bundle.",
)
@click.option(
    "--recorded",
    is_flag=True,
    help="Take the verdict that the bundle records, if it has not changed since. Whoever can write the "
    "folder can write that too: for use right after verify.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def attest(
    out: Path, source: Path | None, adapter: Path | None, output: Path, recorded: bool, as_json: bool
) -> None:
    """Write a statement about BUNDLE that other software can sign.

    It is an in-toto Statement v1 in JSON, the same bytes each time: the SHA-256 of every file, the verdict
    of verify, which runs first, and a hash tree from every range of the weights files to the tensors of the
    checkpoint. Every range that follows from the tensors alone is made again from them.
    `txexport verify BUNDLE --attestation FILE` compares a bundle with it.

    The exit code is that of the verdict, as of verify: 0 if the bundle is equal.
    """
    from rich.text import Text

    from txexport.bundle import check_output
    from txexport.cli.console import Console
    from txexport.verification import attest as run
    from txexport.verification.environment import quiet_references
    from txexport.verification.result import exit_code_of

    check_output(output)
    with quiet_references(), Console(stderr=True).status("attesting") as status:

        def show(case: str) -> None:
            status.update(Text(line(f"verifying: {case}")))

        statement = run(out, source=source, adapter=adapter, recorded=recorded, progress=show)
    statement.write(output)
    if as_json:
        roots = {"weights": statement.weights_root, "checkpoint": statement.tensors_root}
        verdict = {"verdict": statement.verdict, "scope": statement.scope}
        click.echo(json.dumps({"file": str(output), "bundle": str(out), **verdict, **roots}))
    else:
        click.echo(line(f"{output}: {out} is {statement.verdict} {statement.scope}"))
        click.echo(f"weights {statement.weights_root}")
        click.echo(f"checkpoint {statement.tensors_root}")
    sys.exit(exit_code_of(statement.verdict))
