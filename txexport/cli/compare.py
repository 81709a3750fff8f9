"""The command that holds two models against each other."""

from collections.abc import Callable
from typing import Any

import click

from txexport.cli.reported import reported
from txexport.support.printable import line


def _pairs(what: str, read: Callable[[str], Any]) -> Callable[..., dict[str, Any]]:
    """NAME=VALUE pairs as a dict."""

    def parse(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
        result = {}
        for pair in given:
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
@click.option("--inputs", multiple=True, type=click.Path(), help=".npz of inputs by name; again for more.")
@click.option(
    "--match",
    multiple=True,
    metavar="A_NAME=B_NAME",
    callback=_pairs("A_NAME=B_NAME", _word),
    help="An input or output of A, and what B calls it; again for more.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    help="Compare only this output; again for more. Else all must match.",
)
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    callback=_pairs("NAME=LOW:HIGH, of integers, LOW below HIGH", _range),
    show_default="the rows of the embedding that they pick from",
    help="Integers of made inputs, HIGH excluded.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE",
    callback=_pairs("NAME=SIZE", int),
    help="Size of a symbolic dimension of made inputs, as height=224; again for more.",
)
@click.option(
    "--length",
    "lengths",
    multiple=True,
    type=click.IntRange(min=1),
    help="Make a case of so many tokens too; again for more.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    show_default="as verify has it for float32, by size",
    help="Largest error, absolute or relative.",
)
@click.option("--device", default="cpu", show_default=True, help="Also cuda, or another as in generate.")
@click.option(
    "--case", "names", multiple=True, help="Only this case, by its name in a report; again for more."
)
@click.option(
    "--cases",
    type=click.Choice(["quick", "full"]),
    show_default="full",
    help="Of a bundle: a handful, or all.",
)
@reported
def compare(
    a: str,
    b: str,
    names: tuple[str, ...],
    cases: str | None,
    **options: Any,
) -> Any:
    """Hold A and B against each other: whole tensors, every output.

    Each is an ONNX file, of any tool; a bundle; a folder that another tool exported; or a PyTorch module, as
    package.module:function, which is called and returns it. Two files, or a file and a module, read the same
    inputs: those of --inputs, or seeded ones made from what the graph declares (batches of up to 9, rows
    of up to 384 tokens, ragged, padded on either side, with and without past). Inputs and outputs are matched
    by name, those of a module without names by place. A bundle and another export of its checkpoint are held
    to the cases of verify, by the names that the ecosystem uses; for an encoder-decoder give the folder, or
    its merged decoder.

    Where there is an attention_mask, what a graph computes for padding is left out, and nothing else is. An
    input that only one side takes is an error, an output that only one side has a failure.

    Exit code 0: no difference in the cases that were tried. 1: not equal. 2: could not be tried.
    """
    from rich.text import Text

    from txexport.cli.console import Console
    from txexport.verification import compare as run

    if names and cases:
        raise click.UsageError("--case names the cases; --cases chooses others")
    with Console(stderr=True).status("comparing") as status:
        report = run(
            a,
            b,
            **options,
            cases=names or cases or "full",
            progress=lambda case: status.update(Text(line(f"comparing: {case}"))),
        )
    return report
