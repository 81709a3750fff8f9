"""The command line, a thin layer over `export`, `verify`, `load` and the Model's methods."""

import contextlib
import json
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn

import click

from txexport.cli import audio_tasks, generate, image_tasks, options, tasks
from txexport.cli.answers import SKIPPED
from txexport.cli.attention import attention
from txexport.cli.bench import bench
from txexport.cli.compare import compare
from txexport.cli.compare_dtypes import compare_dtypes
from txexport.cli.export import export, quantize
from txexport.cli.options import bundle
from txexport.cli.reported import reported
from txexport.cli.serve import serve
from txexport.errors import TxexportError, crashes, reason
from txexport.support.paths import write_text
from txexport.support.printable import line
from txexport.tasks import METHODS


class Commands(click.Group):
    """A group that ends with exit code 2 and one line for an error that txexport or the system raises."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command `name`, which may also be spelt as the method is."""
        return super().get_command(context, name.replace("_", "-"))

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        """The context of the options that stand before a command."""
        try:
            return super().make_context(*given, **named)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.ClickException as error:
            _refuse(error)

    def invoke(self, context: click.Context) -> Any:
        """Run the command that was given."""
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
        except BrokenPipeError:  # nobody reads on: not an error
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
    """Say what is wrong with how a command was called, and where it says how to call it; exit with 2."""
    context = getattr(error, "ctx", None)
    advice = f"; see {context.command_path} --help" if context is not None else ""
    click.echo(line(f"error: {error.format_message().rstrip('.')}{advice}"), err=True)
    sys.exit(2)


def _show_warning(message: Warning | str, *_args: Any, **_more: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # a notice that nobody reads keeps nothing from being done
        click.echo(line(f"warning: {message}"), err=True)


EPILOG = """Exit codes: 0 done, or equal; 1 not equal, or inputs were skipped; 2 could not be done, or was not
proved; 3 exact, but a number format loses more than its budget.

Completion: put eval "$(_TXEXPORT_COMPLETE=bash_source txexport)" into ~/.bashrc; for zsh zsh_source into
~/.zshrc; for fish, _TXEXPORT_COMPLETE=fish_source txexport | source into its config.fish."""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(package_name="txexport")
def main() -> None:
    """Transformer checkpoints to ONNX, proved equal to their PyTorch originals."""


@main.command()
@bundle
@click.option(
    "--source", type=click.Path(path_type=Path), show_default="where it came from", help="Checkpoint."
)
@options.adapter("Its adapter.", show_default="where it came from")
@click.option(
    "--reference",
    type=click.Choice(["twin", "transformers", "float64", "torch.onnx"]),
    show_default="twin and transformers, where installed",
    help="Only txexport's own PyTorch model, the twin, or only the original in transformers; or the"
    " former in float64, with what float32 alone is off by beside, which tells rounding from error; or as"
    " --torch-onnx.",
)
@click.option("--device", default="cpu", show_default=True, help="Also cuda, or another as in generate.")
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    show_default="onnxruntime",
    help="What runs the graphs: onnxruntime, onnxruntime-unoptimized, reference, openvino, node, "
    "web, or all that are installed; again for more.",
)
@click.option(
    "--case", "names", multiple=True, help="Repeat only this case, by its name in a report; again for more."
)
@click.option(
    "--cases",
    type=click.Choice(["quick", "full"]),
    show_default="full",
    help="All, or a handful that still covers padding, cached steps and every output.",
)
@click.option(
    "--layers",
    is_flag=True,
    help="Say where it goes wrong: every component beside its PyTorch module on the same inputs, by layer.",
)
@click.option(
    "--texts",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Real inputs too: a file of texts, one a line; pairs, or sources and targets, with a tab between.",
)
@click.option(
    "--torch-onnx",
    is_flag=True,
    help="Compare with txexport's PyTorch model as torch.onnx.export writes it, too, if that succeeds.",
)
@click.option("--third", is_flag=True, hidden=True, deprecated="use --torch-onnx")
@click.option(
    "--client",
    type=click.Choice(["optimum", "js", "genai", "openvino"]),
    help="Other software that loads the bundle too, a column beside the runtimes (see tools/clients/run).",
)
@click.option(
    "--allow-edited",
    is_flag=True,
    help="Judge a graph that is not the exported one by cases alone, which the verdict says.",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="NAME=SHARE",
    help="Of a number format: what may be lost, as direction=0.01; also probability, choice, ranks; and of "
    "--texts perplexity, tokens, cosine, neighbours, answers.",
)
@reported
def verify(
    out: Path,
    runtimes: tuple[str, ...],
    names: tuple[str, ...],
    cases: str | None,
    torch_onnx: bool,
    third: bool,
    budgets: tuple[str, ...],
    **arguments: Any,
) -> Any:
    """Prove that the graphs of BUNDLE compute what its checkpoint computes in PyTorch.

    Every file is the one that export makes of the checkpoint: graphs node by node, every weight, tokenizer
    and settings. Then every output, over padded batches, cached steps and chunked prompts. What full or quick
    cases found is recorded in the bundle; `txexport inspect BUNDLE` shows it, and whether it still holds.

    Exit code 0: equal. 1: not equal. 2: could not be tried, or calibrated integers were not proved without
    their texts. 3: every number is right, and a number format loses more of the original than its budget.
    """
    from rich.text import Text

    from txexport.cli.console import Console
    from txexport.verification import verify as run
    from txexport.verification.checks import RUNTIME

    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # so that no browser stays behind
    if names and cases:
        raise click.UsageError("--case names the cases; --cases chooses others")
    with Console(stderr=True).status("verifying") as status:

        def show(case: str) -> None:
            status.update(Text(line(f"verifying: {case}")))

        report = run(
            out,
            runtime=runtimes or RUNTIME,
            cases=names or cases or "full",
            torch_onnx=torch_onnx or third,
            budget=options.shares(budgets),
            progress=show,
            **arguments,
        )
    return report


@main.command()
@click.argument("path", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option("--task", help="What a checkpoint is for, as in export.")
@options.model_type
@click.option(
    "--length", type=click.IntRange(min=1), show_default="512, or the limit", help="Tokens of a row."
)
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Rows.")
@click.option(
    "--kernels",
    is_flag=True,
    help="Of a bundle of int8 or int4 too: which products ONNX Runtime multiplies as integers here.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    help="Write a page here too: the model drawn, with its costs by length, memory and parameters.",
)
def inspect(path: Path, as_json: bool, html: Path | None, **options: Any) -> None:
    """What the checkpoint or bundle FOLDER holds, and what it costs to run.

    Architecture, parameters, operations and memory; of a bundle also graphs, operators, functions, files, and
    what verify last found.
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
@click.option("--json", "as_json", is_flag=True, help="One JSON object: families by task.")
def families(as_json: bool) -> None:
    """The supported tasks, and the architectures of each."""
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
        f"{len(names())} are model types of transformers, whose own classes judge them. No library has "
        f"{' and '.join(without_library())}: txexport's PyTorch twin judges these, and in its tests their "
        "definition in plain PyTorch."
    )


TASK_COMMANDS = {
    command.name: command
    for module in (tasks, generate, image_tasks, audio_tasks)
    for command in vars(module).values()
    if isinstance(command, click.Command)
}
for command in (export, quantize, compare, compare_dtypes, bench, serve, attention):
    main.add_command(command)
for method in METHODS.values():
    main.add_command(TASK_COMMANDS[method.command])
