"""The command that compares two models."""

from collections.abc import Callable
from typing import Any

import click

from txexport.cli.reported import reported
from txexport.support.printable import line


def _pairs(what: str, read: Callable[[str], Any]) -> Callable[..., dict[str, Any]]:
    """NAME=VALUE pairs as a dict."""

    def parse(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
        result = {}
        for pair in pairs:
            name, equals, value = pair.partition("=")
            try:
                result[name] = read(value)
            except ValueError:
                equals = ""
            if not (equals and name):
                raise click.BadParameter(f"'{pair}' is not {what}")
        return result

    return parse


def _range(value: str) -> tuple[int, int]:
    """LOW:HIGH, HIGH excluded. Raises ValueError."""
    low, high = value.split(":")
    if int(low) >= int(high):
        raise ValueError
    return int(low), int(high)


def _word(value: str) -> str:
    if not value:
        raise ValueError
    return value


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--inputs", multiple=True, type=click.Path(), help=".npz of inputs by name; repeatable.")
@click.option(
    "--match",
    multiple=True,
    metavar="A_NAME=B_NAME",
    callback=_pairs("A_NAME=B_NAME", _word),
    help="Name of an input or output in A, and its name in B; repeatable.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    help="Compare only this output; repeatable. Without it, all outputs must match.",
)
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    callback=_pairs("NAME=LOW:HIGH, of integers, LOW below HIGH", _range),
    show_default="the rows of the embedding that they index",
    help="Range of an integer input that is generated, HIGH excluded; repeatable.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE",
    callback=_pairs("NAME=SIZE", int),
    help="Size of a symbolic dimension of generated inputs, such as height=224; repeatable.",
)
@click.option(
    "--length",
    "lengths",
    multiple=True,
    type=click.IntRange(min=1),
    help="Add a case of this number of tokens; repeatable.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    show_default="that of verify for float32",
    help="Maximum error, absolute or relative.",
)
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    help="cpu, cuda, or another execution provider of ONNX Runtime.",
)
@click.option(
    "--case", "names", multiple=True, help="Run only this case, by its name in a report; repeatable."
)
@click.option(
    "--cases",
    type=click.Choice(["quick", "full"]),
    show_default="full",
    help="Cases of a bundle: a few, or all.",
)
@reported
def compare(
    a: str,
    b: str,
    names: tuple[str, ...],
    cases: str | None,
    **options: Any,
) -> Any:
    """Compare every output of A and B, as whole tensors.

    Each is an ONNX file of any tool, a bundle, a folder that another tool exported, or a PyTorch module: give
    package.module:function, which is called and returns the module. Two files, or a file and a module, read
    the same inputs: those of --inputs, or seeded ones generated from the graph's declarations (batches of up
    to 9, rows of up to 384 tokens, ragged, padded on either side, with and without past). Inputs and outputs
    are matched by name, those of a module without names by position. For a bundle and another export of its
    checkpoint, the cases of verify run, by the names that other tools use; for an encoder-decoder give the
    folder, or its merged decoder.

    If there is an attention_mask, outputs at padding are not compared; all others are. An input that only one
    side has is an error, an output that only one side has is a failure.

    Exit code 0: no difference in these cases. 1: not equal. 2: could not be compared.
    """
    from rich.text import Text

    from txexport.cli.console import Console
    from txexport.verification import compare as run

    if names and cases:
        raise click.UsageError("give --case or --cases, not both")
    with Console(stderr=True).status("comparing") as status:
        report = run(
            a,
            b,
            **options,
            cases=names or cases or "full",
            progress=lambda case: status.update(Text(line(f"comparing: {case}"))),
        )
    return report
