"""What commands that run a bundle share: where texts come from, how it runs, how answers come out."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from txexport.errors import InputError


def bundle(command: Callable) -> Callable:
    """The argument BUNDLE."""
    return click.argument("out", metavar="BUNDLE", type=click.Path(path_type=Path))(command)


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


def device(command: Callable) -> Callable:
    """--device and --threads."""
    command = click.option(
        "--threads", type=click.IntRange(1, 1024), help="Threads of one operator (default: all cores)."
    )(command)
    where = "cpu, cuda, or another provider of ONNX Runtime, as openvino (default: CUDA where present)."
    return click.option("--device", help=where)(command)


def answers(command: Callable) -> Callable:
    """--json, --device, --threads and --dtype."""
    command = click.option("--dtype", help="Of those that it was exported in (default: the first).")(command)
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")(device(command))


def long_texts(command: Callable) -> Callable:
    """--truncate and --batch-tokens."""
    cut = "Cut texts that are too long, which are otherwise an error."
    return click.option("--truncate", is_flag=True, help=cut)(batch_tokens(2048)(command))


def batch_tokens(default: int) -> Callable[[Callable], Callable]:
    """--batch-tokens, whose default is the method's."""
    message = f"Most tokens of a batch (default: {default})."
    return click.option("--batch-tokens", type=click.IntRange(min=1), help=message)


def batch_size(command: Callable) -> Callable:
    """--batch-size."""
    size = click.IntRange(min=1)
    return click.option("--batch-size", type=size, help="Images of a batch (default: 8).")(command)


def lines(texts: Sequence[str], file: Path | None) -> list[str]:
    """The arguments, or the lines of `file`; - for either is standard input.

    Raises UsageError for neither or both, InputError for a file that is not UTF-8.
    """
    if file is None and list(texts) == ["-"]:
        texts, file = (), Path("-")
    if bool(texts) == (file is not None):
        raise click.UsageError("give texts as arguments, or --file FILE, or - for standard input")
    if file is None:
        return list(texts)
    text = read(file).removesuffix("\n")
    return [line.removesuffix("\r") for line in text.split("\n")] if text else []


def read(file: Path) -> str:
    """The text of a file, or of standard input for -. Raises InputError for what is not UTF-8."""
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from None


def rows(texts: Sequence[str], file: Path | None) -> list[list[str]]:
    """The arguments as one row, or a row a line, whose parts have tabs between them.

    Raises InputError for a row of less than two parts.
    """
    result = lines(texts, file)
    split = file is not None or list(texts) == ["-"]
    parts = [line.split("\t") for line in result] if split else [result]
    for row in parts:
        if len(row) < 2:
            raise InputError(
                f"{row[0][:40]!r} stands alone, expected two texts or more; in lines, with tabs between them"
            )
    return parts


def pairs(texts: Sequence[str], file: Path | None) -> list[tuple[str, str]]:
    """The arguments two by two, or a pair a line, with a tab between them. Raises InputError for no pairs."""
    parts = rows(texts, file)
    if file is None and list(texts) != ["-"]:
        if len(texts) % 2:
            raise InputError(f"{len(texts)} texts make no pairs; give them two by two")
        parts = [list(texts[i : i + 2]) for i in range(0, len(texts), 2)]
    for i, row in enumerate(parts, 1):
        if len(row) != 2:
            raise InputError(f"line {i} has {len(row)} parts, expected two texts with a tab between them")
    return [(first, second) for first, second in parts]


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


def run(
    out: Path,
    method: str,
    /,
    *inputs: Any,
    device: str | None,
    threads: int | None,
    dtype: str | None,
    **options: Any,
) -> list[Any]:
    """What `method` of the bundle's Model gives for `inputs` and those `options` that were chosen."""
    from txexport.runtime import load

    chosen = {name: value for name, value in options.items() if value is not None}
    model = load(out, device=device, threads=threads, dtype=dtype)
    return with_progress(getattr(model, method), *inputs, **chosen)


def with_progress(method: Callable, /, *inputs: Any, **options: Any) -> list[Any]:
    """What a Model's `method` gives, with a bar on a terminal meanwhile."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from txexport.cli.console import Console

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as bar:
        task = bar.add_task("", total=None)
        return method(
            *inputs, **options, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )


def show(
    as_json: bool, records: Sequence[dict[str, Any]], asked: Sequence[str], answered: Sequence[str]
) -> None:
    """Records on standard output: JSON, one a line, or a table of what was asked and answered.

    `asked` are keys of a record to show, `answered` those of each answer in the list that is its last value.
    """
    if as_json:
        for record in records:
            click.echo(json.dumps(record))
        return
    from txexport.cli.answer_table import answer_table
    from txexport.cli.console import Console

    Console(highlight=False).print(answer_table(records, [*asked, *answered]))
