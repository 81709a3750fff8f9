"""What a command is asked: arguments, or the lines of a file, which are read as they are needed."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click

from txexport.errors import InputError

BLOCK = 2**20  # bytes that are looked through at once for the ends of lines


@dataclass(frozen=True)
class Input:
    """One input: its number from 1, and what the model is given, or why that cannot be."""

    number: int
    value: Any


class Inputs:
    """The `values` of arguments, or what `read` makes of each line of `file`. To be iterated once.

    Raises OSError for a file that cannot be opened.
    """

    def __init__(self, values: Sequence[Any], file: Path | None, read: Callable[[str], Any] = str):
        self.values, self.file, self.read = values, file, read
        self.stream: IO[bytes] | None = None
        if file is not None:
            self.stream = sys.stdin.buffer if str(file) == "-" else file.open("rb")

    @property
    def noun(self) -> str:
        """What an input is called beside its number; nothing where it is the only one."""
        return "line" if self.stream else "input" if len(self.values) > 1 else ""

    def count(self) -> int | None:
        """How many there are; None where only reading them to the end would tell."""
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
        for number, line in enumerate(self.stream, 1):
            try:
                yield Input(number, self.read(self._decoded(line, number)))
            except InputError as error:
                yield Input(number, error)

    def _decoded(self, line: bytes, number: int) -> str:
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            return line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.file} is not UTF-8: byte {error.start} is {line[error.start]:#04x}"
            ) from None


def lines(texts: Sequence[str], file: Path | None, beside: str | None = None) -> Inputs:
    """A text an argument, or a line; with one `beside` it, a pair. Raises UsageError for neither or both."""
    source = _source(texts, file)
    if beside is None:
        return Inputs(texts, source)
    return Inputs([(text, beside) for text in texts], source, lambda line: (line, beside))


def pairs(texts: Sequence[str], file: Path | None) -> Inputs:
    """The arguments two by two, or a pair a line, with a tab between them. Raises UsageError for no pairs."""
    source = _source(texts, file)
    if source is None and len(texts) % 2:
        raise click.UsageError(f"{len(texts)} texts make no pairs; give them two by two")
    return Inputs(list(zip(texts[::2], texts[1::2], strict=False)), source, _pair)


def choices(texts: Sequence[str], file: Path | None) -> Inputs:
    """A question and its choices: the arguments, or those of each line, with tabs between them.

    Raises UsageError for a question without choices.
    """
    source = _source(texts, file)
    if source is None and len(texts) < 2:
        raise click.UsageError(f"{texts[0][:40]!r} stands alone, expected a question and its choices")
    return Inputs([(texts[0], list(texts[1:]))] if source is None else [], source, _question)


def _source(texts: Sequence[str], file: Path | None) -> Path | None:
    """The file of lines; None for arguments."""
    if file is None and list(texts) == ["-"]:
        return Path("-")
    if bool(texts) == (file is not None):
        raise click.UsageError("give texts as arguments, or --file FILE, or - for standard input")
    return file


def _question(line: str) -> tuple[str, list[str]]:
    question, *choices = line.split("\t")
    if not choices:
        raise InputError(f"{question[:40]!r} stands alone, expected its choices after it, with tabs between")
    return question, choices


def _pair(line: str) -> tuple[str, str]:
    row = line.split("\t")
    if len(row) != 2:
        raise InputError(f"{line[:40]!r} is {len(row)} texts, expected two with a tab between them")
    return row[0], row[1]


def listed(inputs: Iterable[Input]) -> list[Any]:
    """All inputs at once. Raises InputError for the first that cannot be read."""
    result = []
    for one in inputs:
        if isinstance(one.value, Exception):
            raise one.value
        result.append(one.value)
    return result


def text_of(file: Path) -> str:
    """The text of a file, or of standard input for -. Raises InputError for what is not UTF-8."""
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from None
