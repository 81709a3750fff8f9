"""Runs the inputs of a command through a model, a window of them at a time, so that memory is bounded."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from txexport.batch.answering import answered
from txexport.cli.inputs import Input, Inputs
from txexport.errors import InputError
from txexport.support.printable import line
from txexport.tasks import METHODS

if TYPE_CHECKING:
    from txexport.runtime import Model

SKIPPED = "txexport.skipped"  # key in a context's meta: --on-error skip skipped inputs
NOTHING = "txexport.nothing"  # the same: the method's answer to no inputs

FILE = re.compile(r"\S+\.(txt|csv|tsv|jsonl?|md|html?)")  # a text that is taken for the name of one

Answered = tuple[Input, Any]  # an input, and its answer or the error
Ask = Callable[..., Sequence]


@dataclass(frozen=True)
class Answers:
    """The options of a command that runs a bundle: how to load it, and how to show answers."""

    out: Path
    as_json: bool
    on_error: str
    window: int
    device: str | None
    threads: int | None
    dtype: str | None
    engine: str
    precision: str

    def load(self) -> "Model":
        """The bundle's Model."""
        from txexport.runtime import load

        return load(
            self.out,
            device=self.device,
            threads=self.threads,
            dtype=self.dtype,
            engine=self.engine,
            precision=self.precision,
        )

    def ask(self, inputs: Inputs, method: str, *more: Any, **options: Any) -> Iterator[list[Answered]]:
        """The answers of the Model's `method` to each input, window by window.

        If the method has several arguments per input, each input is a tuple, and the method receives one list
        per argument. Options that are None are left to the method's default.
        """
        row = METHODS[method]
        if row.inputs == ("text",):
            check_texts(inputs.values)
        call = getattr(self.load(), method)
        chosen = {name: value for name, value in options.items() if value is not None}

        def ask(values: Sequence, first: int = 0, **progress: Any) -> Sequence:
            lists = zip(*values, strict=True) if values else ([], [])
            placed = {"first_place": first} if row.first_place else {}
            parts = map(list, lists) if len(row.inputs) > 1 else [values]
            return call(*parts, *more, **placed, **chosen, **progress)

        return self.windows(inputs, iter(inputs), ask)

    def windows(self, inputs: Inputs, entries: Iterator[Input], ask: Ask) -> Iterator[list[Answered]]:
        """The answers of `ask` to the values of `entries`, window by window.

        `ask` receives the values and the number of inputs before them. It runs on no values first, so that
        wrong options raise an error before any input is read. An input that cannot be answered raises
        InputError after the answers before it, or is reported and skipped.
        """
        click.get_current_context().meta[NOTHING] = ask([])
        bad = done = 0
        with _bar(inputs) as advance:
            while window := list(islice(entries, self.window)):
                result: list[Answered] = []
                for one, answer in _each(ask, window, advance):
                    if isinstance(answer, Exception):
                        if self.on_error == "stop":
                            yield result
                            raise InputError(_stopped(inputs.noun, one, answer))
                        bad += 1
                        if not self.as_json:
                            click.echo(
                                f"error: {_name(inputs.noun or 'input', one, answer)}: {answer}", err=True
                            )
                    result.append((one, answer))
                yield result
                done += len(window)
                advance(done)
        if bad:
            click.echo(f"error: skipped {bad:,} of {done:,}", err=True)
            click.get_current_context().meta[SKIPPED] = True

    def show(
        self,
        windows: Iterator[list[Answered]],
        record: Callable[[Any, Any], Mapping[str, Any]],
        inputs: Sequence[str],
        answers: Sequence[str],
    ) -> None:
        """Print `record` of inputs and answers: one line of JSON for each, or a table for each window.

        `inputs` are the keys of a record to show. `answers` are those of each answer in the record's last
        value, which is a list.
        """
        for window in windows:
            if self.as_json:
                for one, answer in window:
                    bad = isinstance(answer, Exception)
                    click.echo(json.dumps(skipped(one, answer) if bad else record(one.value, answer)))
                continue
            good = [record(one.value, answer) for one, answer in window if not isinstance(answer, Exception)]
            if good:
                from txexport.cli.answer_table import answer_table
                from txexport.cli.console import Console

                Console(highlight=False).print(answer_table(good, inputs, answers))


def check_texts(texts: Sequence[Any]) -> None:
    """Note a text that is the name of a file or a folder, which is not read, or looks like that of a file.

    Raises UsageError where there are several, and all are, as a shell makes them of *.txt.
    """
    files = [text for text in texts if isinstance(text, str) and text and os.path.isfile(text)]
    if len(files) == len(texts) > 1 and all(os.path.splitext(file)[1] for file in files):
        raise click.UsageError(
            f"the {len(files):,} texts are names of files, such as {files[0]}; --file reads the texts of a "
            "file, one on each line"
        )
    names = files or [
        text for text in texts if isinstance(text, str) and (FILE.fullmatch(text) or _folder(text))
    ]
    if names:
        missing = "" if files or _folder(names[0]) else ", since there is no such file"
        folder = "the folder " * _folder(names[0])
        note = f"note: {folder}{names[0]} is read as a text{missing}; --file reads each line of a file"
        click.echo(line(note), err=True)


def _folder(text: str) -> bool:
    return bool(text) and os.path.isdir(text)


def skipped(one: Input, error: Exception) -> dict[str, Any]:
    """The JSON line of an input that was skipped."""
    return {"line": one.number, "error": str(error)}


def _each(ask: Ask, entries: Sequence[Input], advance: Callable[[int], None]) -> Iterator[Answered]:
    """Each input with its answer or its error, which may be that of reading it."""
    readable: list[Input] = []
    for one in entries:
        if not isinstance(one.value, Exception):
            readable.append(one)
            continue
        yield from _together(ask, readable, advance)
        yield one, one.value
        readable = []
    yield from _together(ask, readable, advance)


def _together(ask: Ask, entries: Sequence[Input], advance: Callable[[int], None]) -> Iterator[Answered]:
    """Each input with its answer, or with the error that it causes."""

    def ask_from(values: Sequence, first: int) -> Sequence:
        return ask(values, first, progress=lambda at, _: advance(first + at))

    values = [one.value for one in entries]
    yield from zip(entries, answered(ask_from, values, entries[0].number - 1 if entries else 0), strict=True)


def _stopped(noun: str, one: Input, error: Exception) -> str:
    """The error of a command that stops at an input, with the number of inputs answered before it."""
    if not noun:
        return str(error)
    before = f"answered {one.number - 1:,} before it; --on-error skip skips such inputs"
    return f"{_name(noun, one, error)}: {error}; {before}"


def _name(noun: str, one: Input, error: Exception) -> str:
    """An input's number, and its file if its value has one that the error does not name."""
    path = str(getattr(one.value, "path", ""))
    return f"{noun} {one.number}" if path in str(error) else f"{noun} {one.number}, {path}"


@contextmanager
def _bar(inputs: Inputs) -> Iterator[Callable[[int], None]]:
    """A progress bar of answered inputs, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from txexport.cli.console import Console

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=inputs.count())
        yield lambda done: bar.update(task, completed=done)
