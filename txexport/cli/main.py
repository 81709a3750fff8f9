"""The command line: a thin layer over `export`, `verify`, `load` and the Model's methods."""

import json

import click

from txexport.cli import (
    audio_tasks,
    document_tasks,
    generate,
    image_tasks,
    mask_tasks,
    options,
    page_tasks,
    pose_tasks,
    tasks,
    transcribe,
)
from txexport.cli.attention import attention
from txexport.cli.attest import attest
from txexport.cli.bench import bench
from txexport.cli.chat import chat
from txexport.cli.compare import compare
from txexport.cli.compare_dtypes import compare_dtypes
from txexport.cli.export import export, quantize
from txexport.cli.group import Commands
from txexport.cli.inspect import inspect
from txexport.cli.serve import serve
from txexport.cli.to_openvino import to_openvino
from txexport.cli.verify import verify
from txexport.support.aliases import task_named
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
    for module in (
        *(tasks, generate, transcribe, image_tasks, mask_tasks),
        *(page_tasks, document_tasks, pose_tasks, audio_tasks),
    )
    for command in vars(module).values()
    if isinstance(command, click.Command)
}
for command in (
    inspect,
    export,
    quantize,
    to_openvino,
    verify,
    attest,
    compare,
    compare_dtypes,
    bench,
    serve,
    attention,
    chat,
):
    main.add_command(command)
for method in METHODS.values():
    main.add_command(TASK_COMMANDS[method.command])
