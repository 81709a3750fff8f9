"""A command's inputs through a model, some at a time: however many there are, memory holds few of them."""

import json
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
from txexport.tasks import METHODS

if TYPE_CHECKING:
    from txexport.runtime import Model

SKIPPED = "txexport.skipped"  # of a context, where inputs were left out as was asked

Answered = tuple[Input, Any]  # an input, and its answer or why there is none
Ask = Callable[..., Sequence]


@dataclass(frozen=True)
class Answers:
    """How a bundle runs, and what becomes of answers: what options of commands say."""

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
        """What the Model's `method` gives for each input, window by window.

        Where it reads several arguments of each, inputs are rows, of which it takes a list each part. Options
        that are None are not chosen.
        """
        call, own = getattr(self.load(), method), METHODS[method]
        chosen = {name: value for name, value in options.items() if value is not None}

        def ask(values: Sequence, first: int = 0, **progress: Any) -> Sequence:
            lists = zip(*values, strict=True) if values else ([], [])
            placed = {"first_place": first} if own.first_place else {}
            parts = map(list, lists) if len(own.inputs) > 1 else [values]
            return call(*parts, *more, **placed, **chosen, **progress)

        return self.windows(inputs, iter(inputs), ask)

    def windows(self, inputs: Inputs, entries: Iterator[Input], ask: Ask) -> Iterator[list[Answered]]:
        """What `ask` gives for the values of `entries`, and how many are before them: a window at a time.

        What is wrong with options, which is wrong where nothing is asked, is raised as it is. Raises
        InputError for an input that cannot be answered, after all before it are; or skips it, and says so.
        """
        ask([])
        bad = done = 0
        with _bar(inputs) as tell:
            while window := list(islice(entries, self.window)):
                result: list[Answered] = []
                for one, answer in _each(ask, window, tell):
                    if isinstance(answer, Exception):
                        if self.on_error == "stop":
                            yield result
                            raise InputError(_stopped(inputs.noun, one.number, answer))
                        bad += 1
                        if not self.as_json:
                            click.echo(f"error: {inputs.noun or 'input'} {one.number}: {answer}", err=True)
                    result.append((one, answer))
                yield result
                done += len(window)
                tell(done)
        if bad:
            click.echo(f"error: skipped {bad:,} of {done:,}", err=True)
            click.get_current_context().meta[SKIPPED] = True

    def show(
        self,
        windows: Iterator[list[Answered]],
        record: Callable[[Any, Any], Mapping[str, Any]],
        asked: Sequence[str],
        answered: Sequence[str],
    ) -> None:
        """Print `record` of inputs and answers: a line of JSON each, or a table a window.

        `asked` are keys of a record to show, `answered` those of each answer in the list that is its last
        value.
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

                Console(highlight=False).print(answer_table(good, asked, answered))


def skipped(one: Input, why: Exception) -> dict[str, Any]:
    """What a line of JSON says of an input that was left out."""
    return {"line": one.number, "error": str(why)}


def _each(ask: Ask, entries: Sequence[Input], tell: Callable[[int], None]) -> Iterator[Answered]:
    """Each input with its answer, or with why it has none; some could not even be read."""
    together: list[Input] = []
    for one in entries:
        if not isinstance(one.value, Exception):
            together.append(one)
            continue
        yield from _together(ask, together, tell)
        yield one, one.value
        together = []
    yield from _together(ask, together, tell)


def _together(ask: Ask, entries: Sequence[Input], tell: Callable[[int], None]) -> Iterator[Answered]:
    """Each input with its answer, or with the error that it causes."""

    def ask_from(values: Sequence, first: int) -> Sequence:
        return ask(values, first, progress=lambda at, _: tell(first + at))

    values = [one.value for one in entries]
    yield from zip(entries, answered(ask_from, values, entries[0].number - 1 if entries else 0), strict=True)


def _stopped(noun: str, number: int, why: Exception) -> str:
    """Why a command ends at an input, and how far it came."""
    if not noun:
        return str(why)
    before = f"the {number - 1:,} before it are" if number > 1 else "nothing is"
    return f"{noun} {number}: {why}; {before} answered, and --on-error skip goes on"


@contextmanager
def _bar(inputs: Inputs) -> Iterator[Callable[[int], None]]:
    """A bar of inputs done, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from txexport.cli.console import Console

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=inputs.count())
        yield lambda done: bar.update(task, completed=done)
