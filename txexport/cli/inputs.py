"""Inputs of a command: its arguments, or the lines of a file, read lazily."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click

from txexport.errors import InputError, counted, warn

BLOCK = 2**20  # bytes read at once to count lines


@dataclass(frozen=True)
class Input:
    """One input: its number from 1, and the value for the model, or the error of reading it."""

    number: int
    value: Any


class Inputs:
    """The `values` of arguments, or each line of `file`, parsed by `read`. It can be iterated once.

    Warns of an empty file. Raises InputError for a folder, OSError for a file that cannot be opened.
    """

    def __init__(self, values: Sequence[Any], file: Path | None, read: Callable[[str], Any] = str):
        self.values, self.file, self.read = values, file, read
        self.stream: IO[bytes] | None = None
        if file is not None:
            if file.is_dir():
                raise InputError(f"{file} is a folder; --file needs a file with one input on each line")
            self.stream = sys.stdin.buffer if str(file) == "-" else file.open("rb")

    @property
    def noun(self) -> str:
        """The noun before an input's number in messages; empty for a single argument."""
        return "line" if self.stream else "input" if len(self.values) > 1 else ""

    def count(self) -> int | None:
        """The number of inputs; None for a stream that cannot seek."""
        if self.stream is None:
            return len(self.values)
        if not self.stream.seekable():
            return None
        start, lines, last = self.stream.tell(), 0, b"\n"
        while block := self.stream.read(BLOCK):
            lines, last = lines + block.count(b"\n"), block[-1:]
        self.stream.seek(start)
        return lines + (last != b"\n")

    def __iter__(self) -> Iterator[Input]:
        if self.stream is None:
            yield from (Input(i, value) for i, value in enumerate(self.values, 1))
            return
        number = 0
        for number, line in enumerate(self.stream, 1):
            try:
                yield Input(number, self.read(self._decoded(line, number)))
            except InputError as error:
                yield Input(number, error)
        if number == 0:
            warn(f"{self._name} is empty")

    @property
    def _name(self) -> str:
        return "standard input" if str(self.file) == "-" else str(self.file)

    def _decoded(self, line: bytes, number: int) -> str:
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            return line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self._name} is not UTF-8: byte {error.start} is {line[error.start]:#04x}"
            ) from None


def candidates(texts: Sequence[str], file: Path | None) -> list[Any]:
    """The texts of --text, or the lines of --file. Raises UsageError for both, or neither."""
    if bool(texts) == (file is not None):
        raise click.UsageError("give --text TEXT for each text, or --file FILE")
    return listed(lines(texts, file))


def lines(texts: Sequence[str], file: Path | None, second: str | None = None) -> Inputs:
    """Texts from arguments, or from lines of `file`; each in a pair with `second`, if given.

    Raises UsageError for both, or neither.
    """
    source = _source(texts, file)
    if second is None:
        return Inputs(texts, source)
    return Inputs([(text, second) for text in texts], source, lambda line: (line, second))


def objects(texts: Sequence[str], file: Path | None, read: Callable[[str], Any]) -> Inputs:
    """Arguments, or lines of `file`, each parsed by `read`. Raises UsageError for both, or neither."""
    source = _source(texts, file)
    return Inputs([read(text) for text in texts] if source is None else [], source, read)


def pairs(texts: Sequence[str], file: Path | None) -> Inputs:
    """Pairs of consecutive arguments, or a pair on each line, separated by a tab.

    Raises UsageError for an odd number of arguments.
    """
    source = _source(texts, file)
    if source is None and len(texts) % 2:
        raise click.UsageError(f"{len(texts)} texts, expected pairs: an even number")
    return Inputs(list(zip(texts[::2], texts[1::2], strict=False)), source, _pair)


def choices(texts: Sequence[str], file: Path | None) -> Inputs:
    """A question and its choices: the arguments, or each line, separated by tabs.

    Raises UsageError for a question without choices.
    """
    source = _source(texts, file)
    if source is None and len(texts) < 2:
        raise click.UsageError(f"{texts[0][:40]!r} has no choices, expected a question and its choices")
    return Inputs([(texts[0], list(texts[1:]))] if source is None else [], source, _question)


def _source(texts: Sequence[str], file: Path | None) -> Path | None:
    """The file whose lines are the inputs; None for arguments."""
    if file is None and list(texts) == ["-"]:
        return Path("-")
    if bool(texts) == (file is not None):
        raise click.UsageError(f"give {_arguments()} as arguments, --file FILE, or - for standard input")
    return file


def _arguments() -> str:
    """The name of the command's arguments, such as "texts" or "sounds"."""
    parameters = click.get_current_context().command.params
    metavars = [one.metavar for one in parameters if one.name == "texts" and isinstance(one, click.Argument)]
    return (metavars[0] or "").strip("[].").lower() if metavars else "texts"


def _question(line: str) -> tuple[str, list[str]]:
    question, *choices = line.split("\t")
    if not choices:
        raise InputError(
            f"{question[:40]!r} has no choices, expected a question and its choices, separated by tabs"
        )
    return question, choices


def _pair(line: str) -> tuple[str, str]:
    row = line.split("\t")
    if len(row) != 2:
        raise InputError(f"{line[:40]!r} has {counted(len(row), 'text')}, expected two, separated by a tab")
    return row[0], row[1]


def listed(inputs: Iterable[Input]) -> list[Any]:
    """All values as a list. Raises InputError for the first that cannot be read."""
    result = []
    for one in inputs:
        if isinstance(one.value, Exception):
            raise one.value
        result.append(one.value)
    return result


def text_of(file: Path) -> str:
    """The text of a file, or of standard input for -. Raises InputError if it is not UTF-8."""
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from None
