"""Options that commands share."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from txexport.cli.answers import Answers

TEXTS, IMAGES, GENERATED = 1024, 128, 128  # a window: with many more, batches are hardly better filled
TOP_K = click.IntRange(min=1)


def bundle(command: Callable) -> Callable:
    """The argument BUNDLE."""
    return click.argument("out", metavar="BUNDLE", type=click.Path(path_type=Path))(command)


def model_type(command: Callable) -> Callable:
    """--model-type of a checkpoint."""
    tell = "Family of a checkpoint whose config.json does not tell it: `txexport families` lists them."
    return click.option("--model-type", metavar="NAME", help=tell)(command)


def adapter(tell: str, **given: Any) -> Callable[[Callable], Callable]:
    """--adapter of a checkpoint."""
    return click.option("--adapter", type=click.Path(path_type=Path), help=tell, **given)


def texts(metavar: str) -> Callable[[Callable], Callable]:
    """Arguments called `metavar`, or --file."""

    def add(command: Callable) -> Callable:
        file = click.option(
            "--file",
            type=click.Path(path_type=Path, allow_dash=True),
            help="Take lines; - is standard input.",
        )(command)
        return click.argument("texts", metavar=f"[{metavar}]...", nargs=-1)(file)

    return add


def texts_file(command: Callable) -> Callable:
    """--texts, what models are compared on."""
    return click.option(
        "--texts",
        type=click.Path(path_type=Path, dir_okay=False),
        help="What is asked: a file of texts, one a line; pairs, or sources and targets, with a tab between.",
        show_default="64 sentences",
    )(command)


def device(command: Callable) -> Callable:
    """--engine, --precision, --device and --threads."""
    command = click.option(
        "--threads",
        type=click.IntRange(1, 1024),
        show_default="all cores it may use",
        help="Threads of one operator.",
    )(command)
    where = "cpu, cuda, or another provider of ONNX Runtime, as openvino."
    command = click.option("--device", show_default="CUDA where present", help=where)(command)
    for name, values, tell in (
        (
            "--precision",
            ["float32", "bfloat16"],
            "What openvino computes in; bfloat16 is faster where a processor has it.",
        ),
        ("--engine", ["onnxruntime", "openvino"], "What computes."),
    ):
        choice = click.Choice(values)
        command = click.option(name, type=choice, default=values[0], show_default=True, help=tell)(command)
    return command


def dtype(command: Callable) -> Callable:
    """--dtype of a bundle."""
    return click.option("--dtype", show_default="the first", help="One of those that it was exported in.")(
        command
    )


def answers(window: int) -> Callable[[Callable], Callable]:
    """What every command that runs a bundle takes, which gets it as `answers`; `window` is a default."""

    def add(command: Callable) -> Callable:
        @click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as inputs are done.")
        @click.option(
            "--on-error",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            show_default=True,
            help="At an input that cannot be answered; skip says which, and exits with 1 in the end.",
        )
        @click.option(
            "--window",
            type=click.IntRange(min=1),
            default=window,
            show_default=True,
            help="Inputs read and answered at a time.",
        )
        @device
        @dtype
        @functools.wraps(command)
        def run(**given: Any) -> None:
            own = {field.name: given.pop(field.name) for field in fields(Answers)}
            command(Answers(**own), **given)

        return run

    return add


def long_texts(command: Callable) -> Callable:
    """--truncate and --batch-tokens."""
    cut = "Cut texts that are too long, which are otherwise an error."
    return click.option("--truncate", is_flag=True, help=cut)(batch_tokens(2048)(command))


def batch_tokens(default: int) -> Callable[[Callable], Callable]:
    """--batch-tokens, whose default is the method's."""
    return click.option(
        "--batch-tokens",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="Most tokens of a batch.",
    )


def batch_size(command: Callable) -> Callable:
    """--batch-size."""
    size = click.IntRange(min=1)
    return click.option("--batch-size", type=size, default=8, show_default=True, help="Images of a batch.")(
        command
    )


def shares(given: Sequence[str]) -> dict[str, float]:
    """NAME=SHARE, each. Raises UsageError for another form."""
    result = {}
    for one in given:
        name, _, share = one.partition("=")
        try:
            result[name] = float(share)
        except ValueError:
            raise click.UsageError(f"--budget {one!r}, expected NAME=SHARE, as direction=0.01") from None
    return result
