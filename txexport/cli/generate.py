"""Commands that generate text from prompts or images."""

import functools
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answered, Answers, check_texts, skipped
from txexport.support.printable import line


def _set(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """Options from NAME=VALUE pairs; a value is JSON, or else text."""
    result = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"'{pair}' is not NAME=VALUE")
        try:
            result[name] = json.loads(value)
        except ValueError as error:
            if value[:1] in ("[", "{", '"'):
                raise click.BadParameter(f"{value} is not JSON: {error}; put a text in quotes") from None
            result[name] = value
    return result


max_new_tokens = click.option(
    "--max-new-tokens",
    type=int,
    show_default="the checkpoint's, or else 20",
    help="Maximum number of generated tokens.",
)
num_beams = click.option(
    "--num-beams", type=int, show_default="the checkpoint's, or else 1", help="Number of beams of a search."
)
set_option = click.option(
    "--set",
    "others",
    multiple=True,
    callback=_set,
    metavar="NAME=VALUE",
    help="Any other option of transformers' generate, such as repetition_penalty=1.2; repeatable.",
)


SEARCH = (
    num_beams,
    click.option(
        "--do-sample/--no-sample",
        default=None,
        show_default="the checkpoint's, or else --no-sample",
        help="Sample tokens instead of taking the most probable.",
    ),
    click.option(
        "--temperature",
        type=float,
        show_default="1, or the checkpoint's",
        help="Divisor of the logits in sampling; 0 for no sampling.",
    ),
    click.option(
        "--top-k",
        type=int,
        show_default="50, or the checkpoint's",
        help="Sample from this number of the most probable tokens.",
    ),
    click.option(
        "--top-p",
        type=float,
        show_default="1, or the checkpoint's",
        help="Sample from the smallest set of tokens with this total probability.",
    ),
    click.option(
        "--json-schema",
        type=click.File(encoding="utf-8"),
        callback=lambda context, parameter, file: file and file.read(),
        help="Generate JSON that satisfies the schema in this file; - for standard input.",
    ),
    click.option("--regex", help="Generate text that this regular expression matches."),
    click.option("--seed", type=int, show_default="random", help="Seed of sampling."),
    set_option,
)


def search_options(command: Callable) -> Callable:
    """The options of `generate` but for --max-new-tokens: search, sampling, constraints and --set."""
    return functools.reduce(lambda decorated, option: option(decorated), reversed(SEARCH), command)


@click.command()
@options.bundle
@options.texts("PROMPTS")
@click.option(
    "--image",
    "images",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Image file of a single prompt, in place of the checkpoint's token for one, such as <image>; "
    "repeatable.",
)
@click.option(
    "--audio",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Sound file of a single prompt, in place of the checkpoint's token for one, such as <|AUDIO|>; "
    "repeatable.",
)
@click.option(
    "--src-lang",
    help="Language of the prompts, such as fr_XX or fra_Latn, for a multilingual translation model.",
)
@click.option("--tgt-lang", help="Language of the translation.")
@max_new_tokens
@search_options
@options.batch_tokens(8192)
@options.answers(options.GENERATED)
def generate(
    answers: Answers,
    texts: tuple[str, ...],
    file: Path | None,
    images: tuple[str, ...],
    audio: tuple[str, ...],
    src_lang: str | None,
    tgt_lang: str | None,
    others: dict[str, Any],
    batch_tokens: int | None,
    **chosen: Any,
) -> None:
    """Generate text from PROMPTS.

    The text of a single prompt is streamed. Several prompts run in batches; their texts are printed in order,
    each below its prompt, or with --json as lines.
    """
    settings = {name: value for name, value in chosen.items() if value is not None} | others
    prompts = inputs.lines(texts, file)
    check_texts(prompts.values)
    entries = iter(prompts)
    first = list(islice(entries, 2))
    model = answers.load()
    with warnings.catch_warnings(action="ignore"):  # generate shows them
        sequences = model.generation_config.updated(**settings).num_return_sequences
    arguments: dict[str, Any] = settings | {"src_lang": src_lang, "tgt_lang": tgt_lang}
    for name, option, paths in (("images", "--image", images), ("audio", "--audio", audio)):
        if paths and len(first) != 1:
            raise click.UsageError(f"{option} needs a single prompt")
        if paths:
            arguments[name] = [list(paths)]
    if len(first) == 1 and not answers.as_json and sequences == 1:
        for _, piece in model.stream_many(inputs.listed(first), **arguments):
            click.echo(piece, nl=False)
        click.echo()
        return
    if batch_tokens is not None:
        arguments["batch_tokens"] = batch_tokens

    def ask(values: Sequence, before: int = 0, **progress: Any) -> Sequence:
        return model.generate(values, first_place=before, **arguments, **progress)

    show_texts("prompt", answers.windows(prompts, chain(first, entries), ask), answers, sequences)


@click.command()
@options.bundle
@options.texts("IMAGES")
@max_new_tokens
@num_beams
@options.batch_tokens(8192)
@options.answers(options.GENERATED)
def image_to_text(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Caption the image files IMAGES, or read the text in them."""
    show_texts("image", answers.ask(inputs.lines(texts, file), "image_to_text", **chosen), answers)


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option("--question", default="Describe the image.", show_default=True, help="Asked about each image.")
@max_new_tokens
@num_beams
@options.batch_tokens(8192)
@options.answers(options.GENERATED)
def ask_image(
    answers: Answers, texts: tuple[str, ...], file: Path | None, question: str, **chosen: Any
) -> None:
    """Answer a question about each of the image files IMAGES."""
    show_texts("image", answers.ask(inputs.lines(texts, file), "ask_image", question, **chosen), answers)


def show_texts(kind: str, windows: Iterator[list[Answered]], answers: Answers, sequences: int = 1) -> None:
    """Print texts as lines of JSON; or plain, each below its input if there are several."""
    several = False
    for window in windows:
        several = several or sequences * len(window) > 1
        for one, answer in window:
            if isinstance(answer, Exception):
                if answers.as_json:
                    click.echo(json.dumps(skipped(one, answer)))
                continue
            for copy, text in enumerate([answer] if isinstance(answer, str) else answer, 1):
                if answers.as_json:
                    click.echo(json.dumps({kind: one.value, "text": text}))
                    continue
                if several:
                    number = f" ({copy} of {sequences})" if sequences > 1 else ""
                    click.echo(f"==> {line(one.value)}{number} <==")
                click.echo(text)
