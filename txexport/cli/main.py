"""The command line: a thin layer over `export`, `verify`, `load` and the Model's methods."""

import contextlib
import json
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn

import click

from txexport.cli import (
    audio_tasks,
    generate,
    image_tasks,
    mask_tasks,
    options,
    pose_tasks,
    tasks,
    transcribe,
)
from txexport.cli.answers import SKIPPED
from txexport.cli.attention import attention
from txexport.cli.bench import bench
from txexport.cli.compare import compare
from txexport.cli.compare_dtypes import compare_dtypes
from txexport.cli.export import export, quantize
from txexport.cli.serve import serve
from txexport.cli.verify import verify
from txexport.errors import TxexportError, crashes, reason
from txexport.support.paths import write_text
from txexport.support.printable import line
from txexport.tasks import METHODS


class Commands(click.Group):
    """A group that prints an error of txexport or the system in one line, and exits with code 2."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command `name`; underscores may replace hyphens, as in the method's name."""
        return super().get_command(context, name.replace("_", "-"))

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """The context of the options before a command."""
        try:
            return super().make_context(*arguments, **options)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.ClickException as error:
            _refuse(error)

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        warnings.showwarning = _show_warning
        try:
            with crashes():
                result = super().invoke(context)
            if context.meta.get(SKIPPED):
                sys.exit(1)
            return result
        except click.exceptions.Exit:
            raise
        except click.ClickException as error:
            _refuse(error)
        except TxexportError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(error.exit_code)
        except BrokenPipeError:  # the reader has closed the pipe: not an error
            from txexport.cli.console import discard_output

            discard_output()
            sys.exit(0)
        except OSError as error:
            click.echo(line(f"error: {error.filename or 'output'}: {reason(error)}"), err=True)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)
        except Exception:  # a defect of txexport; 1 would mean "not equal"
            traceback.print_exc()
        sys.exit(2)


def _refuse(error: click.ClickException) -> NoReturn:
    """Print the usage error with a reference to --help, and exit with code 2."""
    context = getattr(error, "ctx", None)
    advice = f"; see {context.command_path} --help" if context is not None else ""
    click.echo(line(f"error: {error.format_message().rstrip('.')}{advice}"), err=True)
    sys.exit(2)


def _show_warning(message: Warning | str, *_args: Any, **_more: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # a warning that cannot be printed must not stop the command
        click.echo(line(f"warning: {message}"), err=True)


EPILOG = """Exit codes: 0 success, or equal; 1 not equal, or inputs were skipped; 2 an error, or not proved;
3 exact, but a number format loses more than its budget.

Completion: put eval "$(_TXEXPORT_COMPLETE=bash_source txexport)" into ~/.bashrc; for zsh zsh_source into
~/.zshrc; for fish, _TXEXPORT_COMPLETE=fish_source txexport | source into its config.fish."""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(package_name="txexport")
def main() -> None:
    """Export Transformer checkpoints to ONNX, proved equal to their PyTorch originals."""


@main.command()
@click.argument("path", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option("--task", help="Task of a checkpoint, as in export.")
@options.model_type
@click.option(
    "--length",
    type=click.IntRange(min=1),
    show_default="512, or the limit",
    help="Number of tokens in a row.",
)
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Number of rows.")
@click.option(
    "--kernels",
    is_flag=True,
    help="Also list the products that ONNX Runtime multiplies as integers here, for int8 and int4.",
)
@click.option(
    "--provider",
    help="Also tell where a provider of ONNX Runtime, such as cuda, would compute each node. No device "
    "is needed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    help="Also write an HTML page: a diagram of the model, its costs by length, memory and parameters.",
)
def inspect(path: Path, as_json: bool, html: Path | None, **options: Any) -> None:
    """Show the contents and costs of a checkpoint or bundle FOLDER.

    Architecture, parameters, operations and memory; for a bundle also graphs, operators, functions, files,
    and the last result of verify.
    """
    from txexport.bundle import check_report
    from txexport.inspection import inspect as run

    if html is not None:
        check_report(html)
    result = run(path, **options)
    if html is not None:
        from txexport.inspection.page import render as page

        write_text(html, page(result))
    if as_json:
        click.echo(json.dumps(result.to_dict()))
        return
    from txexport.cli.console import Console
    from txexport.inspection.table import render

    Console(highlight=False).print(render(result))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: families by task.")
def families(as_json: bool) -> None:
    """List the supported tasks, and the families of each."""
    from txexport.families import by_task, names, without_library

    result = by_task()
    if as_json:
        click.echo(json.dumps(result))
        return
    from txexport.cli.console import Console
    from txexport.support.terminal import FittedTable

    table = FittedTable("task", "families")
    for task, able in result.items():
        table.add_row(task, ", ".join(able))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{len(names())} are model types of transformers, and are verified against its classes. "
        f"{' and '.join(without_library())} are in no library, and are verified against txexport's PyTorch "
        "twin, which its tests compare with a definition in plain PyTorch."
    )


TASK_COMMANDS = {
    command.name: command
    for module in (tasks, generate, transcribe, image_tasks, mask_tasks, pose_tasks, audio_tasks)
    for command in vars(module).values()
    if isinstance(command, click.Command)
}
for command in (export, quantize, verify, compare, compare_dtypes, bench, serve, attention):
    main.add_command(command)
for method in METHODS.values():
    main.add_command(TASK_COMMANDS[method.command])
