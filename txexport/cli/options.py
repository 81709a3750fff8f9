"""Options that commands share."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from txexport.bundle import check_output
from txexport.cli.answers import Answers
from txexport.tasks import TASKS

TEXTS, IMAGES, GENERATED = 1024, 128, 128  # inputs in a window; more would hardly fill batches better
TOP_K = click.IntRange(min=1)


class Folder(click.Path):
    """A path that is not empty; an empty one would be the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """The path. Raises BadParameter for an empty one."""
        if value == "":
            self.fail("it is empty, expected a folder", parameter, context)
        return super().convert(value, parameter, context)


def bundle(command: Callable) -> Callable:
    """The argument BUNDLE."""
    return click.argument("out", metavar="BUNDLE", type=Folder())(command)


def model_type(command: Callable) -> Callable:
    """--model-type of a checkpoint."""
    text = "Family, if config.json has no model_type; `txexport families` lists them."
    return click.option("--model-type", metavar="NAME", help=text)(command)


def complete_dtypes(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    """Shell completion of a dtype, or of the last of several."""
    from txexport.formats import DTYPES

    before, comma, last = typed.rpartition(",")
    return [f"{before}{comma}{name}" for name in DTYPES if name.startswith(last)]


def task(text: str, **options: Any) -> Callable[[Callable], Callable]:
    """--task, with completion of the canonical names."""

    def complete(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
        return [name for name in TASKS if name.startswith(typed)]

    return click.option("--task", help=text, shell_complete=complete, **options)


def adapter(text: str, **options: Any) -> Callable[[Callable], Callable]:
    """--adapter of a checkpoint."""
    return click.option("--adapter", type=click.Path(path_type=Path), help=text, **options)


def texts(metavar: str) -> Callable[[Callable], Callable]:
    """Arguments called `metavar`, or --file."""

    def add(command: Callable) -> Callable:
        file = click.option(
            "--file",
            type=click.Path(path_type=Path, allow_dash=True),
            help="File with one input per line; - for standard input.",
        )(command)
        return click.argument("texts", metavar=f"[{metavar}]...", nargs=-1)(file)

    return add


def candidates(command: Callable) -> Callable:
    """--text and --file, the texts of which each is compared with each input."""
    file = click.option(
        "--file",
        type=click.Path(path_type=Path, allow_dash=True),
        help="File with one text per line; - for standard input.",
    )(command)
    return click.option("--text", "texts", multiple=True, help="Candidate text; repeatable.")(file)


def texts_file(command: Callable) -> Callable:
    """--texts, the inputs on which models are compared."""
    return click.option(
        "--texts",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File of texts, one per line; pairs, or sources and targets, separated by a tab.",
        show_default="64 sentences",
    )(command)


def plot_file(command: Callable) -> Callable:
    """--plot, the file of a drawing."""

    def check(_context: click.Context, _option: click.Parameter, file: Path | None) -> Path | None:
        if file is not None and file.suffix.lower() != ".svg":
            raise click.BadParameter(f"'{file}' does not end in .svg")
        if file is not None:
            check_output(file)
        return file

    return click.option(
        "--plot",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=check,
        help="Also draw the results, as .svg.",
    )(command)


def device(command: Callable) -> Callable:
    """--engine, --precision, --device and --threads."""
    command = click.option(
        "--threads",
        type=click.IntRange(1, 1024),
        show_default="all available cores",
        help="Threads of one operator.",
    )(command)
    where = "cpu, cuda, or another execution provider of ONNX Runtime, such as openvino."
    command = click.option("--device", show_default="cuda if available, else cpu", help=where)(command)
    for name, values, text in (
        (
            "--precision",
            ["float32", "bfloat16"],
            "Precision of --engine openvino; bfloat16 is faster on processors that support it.",
        ),
        ("--engine", ["onnxruntime", "openvino"], "Inference engine."),
    ):
        choice = click.Choice(values)
        command = click.option(name, type=choice, default=values[0], show_default=True, help=text)(command)
    return command


def dtype(command: Callable) -> Callable:
    """--dtype of a bundle."""
    return click.option(
        "--dtype",
        show_default="the first exported",
        help="Number format of the bundle to load.",
        shell_complete=complete_dtypes,
    )(command)


def answers(window: int) -> Callable[[Callable], Callable]:
    """The options of a command that runs a bundle, passed as `answers`. `window` is a default."""

    def add(command: Callable) -> Callable:
        @click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each input.")
        @click.option(
            "--on-error",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            show_default=True,
            help="If an input cannot be answered: stop, or report it, continue, and exit with code 1.",
        )
        @click.option(
            "--window",
            type=click.IntRange(min=1),
            default=window,
            show_default=True,
            help="Number of inputs read and answered at a time.",
        )
        @device
        @dtype
        @functools.wraps(command)
        def run(**options: Any) -> None:
            read = [options.get("file"), *(options["texts"] if _reads_files() else ())]
            for name in ("output", "draw"):
                if options.get(name) is not None:
                    refuse_input(f"--{name}", options[name], read)
                    check_output(options[name], folder=True)
            shared = {field.name: options.pop(field.name) for field in fields(Answers)}
            command(Answers(**shared), **options)

        return run

    return add


def _reads_files() -> bool:
    """Return whether the arguments of the command are names of files, rather than texts."""
    arguments = click.get_current_context().command.params
    return any(one.name == "texts" and one.metavar in ("IMAGES", "SOUNDS") for one in arguments)


def refuse_input(option: str, target: Path | None, inputs: Sequence[str | Path | None]) -> None:
    """Raise UsageError where the file `target` of an option is one of the inputs, which it would replace."""
    if target is None or not target.is_file():
        return
    for one in inputs:
        with contextlib.suppress(OSError, ValueError):  # a text, or no path
            if one is not None and target.samefile(one):
                raise click.UsageError(f"{option} {target} would replace an input; give another file")


def long_texts(command: Callable) -> Callable:
    """--truncate and --batch-tokens."""
    return truncate(batch_tokens(2048)(command))


def truncate(command: Callable) -> Callable:
    """--truncate."""
    text = "Truncate texts that are too long, instead of an error."
    return click.option("--truncate", is_flag=True, help=text)(command)


def spans(which: str, window: str, overlap: int) -> Callable[[Callable], Callable]:
    """The options of answers that are spans of a text, which is read in windows."""
    added = (
        click.option("--top-k", type=TOP_K, default=1, show_default=True, help=f"Number of answers {which}."),
        click.option(
            "--max-answer-len",
            type=click.IntRange(min=1),
            default=15,
            show_default=True,
            help="Maximum number of tokens in an answer.",
        ),
        click.option(
            "--max-seq-len",
            type=click.IntRange(min=1),
            show_default=window,
            help="Number of tokens in a window.",
        ),
        click.option(
            "--doc-stride",
            type=click.IntRange(min=0),
            show_default=f"half the window, up to {overlap}",
            help="Number of tokens by which windows overlap.",
        ),
    )

    def decorate(command: Callable) -> Callable:
        for option in reversed(added):
            command = option(command)
        return command

    return decorate


def batch_tokens(default: int) -> Callable[[Callable], Callable]:
    """--batch-tokens."""
    return click.option(
        "--batch-tokens",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="Maximum number of tokens in a batch.",
    )


def batch_size(command: Callable) -> Callable:
    """--batch-size."""
    size = click.IntRange(min=1)
    return click.option(
        "--batch-size", type=size, default=8, show_default=True, help="Number of inputs in a batch."
    )(command)


def shares(pairs: Sequence[str]) -> dict[str, float]:
    """Shares by name, from NAME=SHARE. Raises UsageError for any other form."""
    result = {}
    for pair in pairs:
        name, _, share = pair.partition("=")
        try:
            result[name] = float(share)
        except ValueError:
            raise click.UsageError(
                f"--budget {pair!r}, expected NAME=SHARE, such as direction=0.01"
            ) from None
    return result
