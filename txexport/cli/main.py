"""The command line: a thin layer over `export`, `verify`, `load` and the Model's methods."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

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
from txexport.cli.attention import attention
from txexport.cli.bench import bench
from txexport.cli.chat import chat
from txexport.cli.compare import compare
from txexport.cli.compare_dtypes import compare_dtypes
from txexport.cli.export import export, quantize
from txexport.cli.group import Commands
from txexport.cli.inspect import inspect
from txexport.cli.options import bundle
from txexport.cli.reported import reported
from txexport.cli.serve import serve
from txexport.support.aliases import task_named
from txexport.support.printable import line
from txexport.tasks import METHODS

EPILOG = """Exit codes: 0 success, or equal; 1 not equal, or inputs were skipped; 2 an error, or not proved;
3 exact, but a number format loses more than its budget.

Completion: put eval "$(_TXEXPORT_COMPLETE=bash_source txexport)" into ~/.bashrc; for zsh zsh_source into
~/.zshrc; for fish, _TXEXPORT_COMPLETE=fish_source txexport | source into its config.fish."""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(package_name="txexport")
def main() -> None:
    """Export Transformer checkpoints to ONNX, proved equal to their PyTorch originals."""


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
    help="Compare with txexport's PyTorch model (twin) alone, with the original in transformers alone, with "
    "the twin in float64, which separates rounding from errors, or with torch.onnx, as --torch-onnx.",
)
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    help="cpu, cuda, or another execution provider of ONNX Runtime.",
)
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    show_default="onnxruntime",
    help="Runtime of the graphs: onnxruntime, onnxruntime-unoptimized, reference, openvino, node, web, "
    "webgpu, or all that are installed; repeatable.",
)
@click.option(
    "--case", "names", multiple=True, help="Run only this case, by its name in a report; repeatable."
)
@click.option(
    "--cases",
    type=click.Choice(["quick", "full"]),
    show_default="full",
    help="All cases, or a few that cover padding, cached steps and every output.",
)
@click.option(
    "--layers",
    is_flag=True,
    help="Find the first wrong component: compare each one with its PyTorch module, layer by layer.",
)
@click.option(
    "--texts",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also run the texts of this file, one per line; pairs, or sources and targets, separated by a tab.",
)
@click.option(
    "--torch-onnx",
    is_flag=True,
    help="Also compare with the graphs that torch.onnx.export makes of the twin, if it succeeds.",
)
@click.option("--third", is_flag=True, hidden=True, deprecated="use --torch-onnx")
@click.option(
    "--client",
    type=click.Choice(["optimum", "js", "genai", "openvino"]),
    help="Also compare with another client that loads the bundle (installed by tools/clients/run).",
)
@click.option(
    "--allow-edited",
    is_flag=True,
    help="Accept an edited graph, and verify it by cases alone; the verdict says so.",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="NAME=SHARE",
    help="Maximum loss of a number format, such as direction=0.01; also probability, choice and ranks; with "
    "--texts also perplexity, tokens, cosine, neighbours and answers.",
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

    First, every file is compared with the one that export makes of the checkpoint: graphs node by node, every
    weight, tokenizer and settings. Then every output is compared, for padded batches, cached steps and
    chunked prompts. The result is recorded in the bundle; `txexport inspect BUNDLE` shows it, and whether it
    is still valid.

    Exit code 0: equal. 1: not equal. 2: could not be verified, or calibrated integers were not proved without
    their texts. 3: exact, but a number format loses more than its budget.
    """
    from rich.text import Text

    from txexport.cli.console import Console
    from txexport.verification import verify as run
    from txexport.verification.checks import RUNTIME

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that browsers are closed
    if names and cases:
        raise click.UsageError("give --case or --cases, not both")
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
@options.task("Only the families of this task.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: families by task.")
def families(task: str | None, as_json: bool) -> None:
    """List the supported tasks, and the families of each."""
    from txexport.families import by_task, names, without_library

    result = by_task()
    if task is not None:
        if task_named(task) not in result:
            raise click.BadParameter(f"{task!r}, expected one of {', '.join(result)}", param_hint="'--task'")
        result = {task_named(task): result[task_named(task)]}
    if as_json:
        click.echo(json.dumps(result))
        return
    from txexport.cli.console import Console
    from txexport.support.terminal import FittedTable

    table = FittedTable("task", "families")
    for name, able in result.items():
        table.add_row(name, ", ".join(able))
    console = Console(highlight=False)
    console.print(table)
    if task is not None:
        return
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
for command in (inspect, export, quantize, compare, compare_dtypes, bench, serve, attention, chat):
    main.add_command(command)
for method in METHODS.values():
    main.add_command(TASK_COMMANDS[method.command])
