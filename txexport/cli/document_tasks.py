"""Commands for words in their boxes on pages. Each calls the Model's method of the same name.

A page is an object of JSON, as an argument or a line of a file; see `Page` of the runtime.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answered, Answers
from txexport.cli.page_tasks import output, show_arrays
from txexport.errors import InputError, shown

STARTS = 40  # characters of a page's text in a table

stride = click.option(
    "--stride",
    type=click.IntRange(min=0),
    help="Split long pages into windows that overlap by this number of tokens.",
)


@click.command()
@options.bundle
@options.texts("PAGES")
@stride
@options.batch_tokens(2048)
@options.answers(options.TEXTS)
def tag_words(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Label each word of PAGES.

    A page is a JSON object, {"words": [...], "boxes": [...]}, with the path of its "image" where the model
    reads it.
    """
    windows = _named(answers.ask(inputs.objects(texts, file, _page), "tag_words", **chosen))
    answers.show(
        windows, lambda page, labels: {"page": page, "words": labels}, ["page"], ["word", "label", "score"]
    )


@click.command()
@options.bundle
@options.texts("PAGES")
@stride
@output
@options.batch_tokens(2048)
@options.answers(options.TEXTS)
def embed_words(
    answers: Answers, texts: tuple[str, ...], file: Path | None, output: Path | None, **chosen: Any
) -> None:
    """Compute a vector for each word of PAGES, JSON objects as for tag-words.

    Prints the numbers of vectors; --json gives them, --output writes them to a file.
    """
    windows = answers.ask(inputs.objects(texts, file, _page), "embed_words", **chosen)
    show_arrays("page", _named(windows), answers, output)


@click.command()
@options.bundle
@options.texts("PAGES")
@click.option("--top-k", type=options.TOP_K, show_default="all", help="Number of labels for each.")
@options.long_texts
@options.answers(options.TEXTS)
def classify_page(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Classify PAGES, JSON objects as for tag-words: labels with their probabilities."""
    windows = _named(answers.ask(inputs.objects(texts, file, _page), "classify_page", **chosen))
    answers.show(windows, lambda page, labels: {"page": page, "labels": labels}, ["page"], ["label", "score"])


@click.command()
@options.bundle
@options.texts("PAGES")
@click.option("--question", required=True, help="Question to ask of each page.")
@options.spans("on each page", "the limit", 256)
@click.option("--handle-impossible-answer", is_flag=True, help="Allow an empty answer.")
@options.batch_tokens(2048)
@options.answers(options.TEXTS)
def answer_page(
    answers: Answers, texts: tuple[str, ...], file: Path | None, question: str, **chosen: Any
) -> None:
    """Answer a question on PAGES, JSON objects as for tag-words, by spans of their words."""
    pairs = inputs.objects(texts, file, lambda line: (question, _page(line)))
    answers.show(
        _named(answers.ask(pairs, "answer_page", **chosen)),
        lambda page, result: {"page": page, "answers": result},
        ["page"],
        ["answer", "score", "start", "end"],
    )


def _page(line: str) -> Any:
    """A page of a line of JSON. Raises InputError for a line that is no object."""
    try:
        page = json.loads(line)
    except (ValueError, RecursionError):
        page = None
    if not isinstance(page, dict):
        raise InputError(f'{shown(line)} is no page: expected {{"words": [...], "boxes": [...]}} as JSON')
    return page


def _named(windows: Iterator[list[Answered]]) -> Iterator[list[Answered]]:
    """The answers with the first words of each page in its place; an input may be a question and a page."""
    for window in windows:
        yield [(replace(one, value=_start(one.value)), answer) for one, answer in window]


def _start(value: Any) -> str:
    page = value[1] if isinstance(value, tuple) else value
    text = " ".join(map(str, page["words"])) if isinstance(page, dict) and "words" in page else ""
    return text if len(text) <= STARTS else f"{text[:STARTS]}..."
