"""Commands that make text: of prompts, and of speech."""

import json
import warnings
from pathlib import Path
from typing import Any

import click

from txexport.cli import options


def _set(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """NAME=VALUE pairs as options; a value is JSON, or else the text itself."""
    result = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"'{pair}' is not NAME=VALUE")
        try:
            result[name] = json.loads(value)
        except ValueError:
            result[name] = value
    return result


@click.command()
@options.bundle
@options.texts("PROMPTS")
@click.option(
    "--src-lang", help="Language of the texts, as fr_XX or fra_Latn, for a translator between many."
)
@click.option("--tgt-lang", help="Language to translate them into.")
@click.option("--max-new-tokens", type=int, help="Default: what the checkpoint says, or else 20.")
@click.option("--num-beams", type=int, help="Beam search with so many beams.")
@click.option("--do-sample/--no-sample", default=None, help="Draw tokens instead of taking the likeliest.")
@click.option("--temperature", type=float, help="Below 1 likely tokens become likelier, above 1 less so.")
@click.option("--top-k", type=int, help="Draw from so many of the likeliest tokens.")
@click.option("--top-p", type=float, help="Draw from the fewest tokens that have this probability.")
@click.option("--seed", type=int, help="Draw the same tokens each time.")
@click.option(
    "--set",
    "others",
    multiple=True,
    callback=_set,
    metavar="NAME=VALUE",
    help="Any other option by transformers' name, as repetition_penalty=1.2; again for more.",
)
@options.batch_tokens(8192)
@options.answers
def generate(
    out: Path,
    texts: tuple[str, ...],
    file: Path | None,
    src_lang: str | None,
    tgt_lang: str | None,
    others: dict[str, Any],
    as_json: bool,
    batch_tokens: int | None,
    device: str | None,
    threads: int | None,
    dtype: str | None,
    **chosen: Any,
) -> None:
    """Continue PROMPTS; an encoder-decoder answers them.

    The text of one prompt comes as it is made. Many run in batches, and are answered in their order.
    """
    from txexport.runtime import load

    given = {name: value for name, value in chosen.items() if value is not None} | others
    prompts = options.lines(texts, file)
    model = load(out, device=device, threads=threads, dtype=dtype)
    with warnings.catch_warnings(action="ignore"):  # the search will tell them
        sequences = model.generation_config.updated(**given).num_return_sequences
    if len(prompts) == 1 and not as_json and sequences == 1:
        for _, piece in model.stream_many(prompts, src_lang=src_lang, tgt_lang=tgt_lang, **given):
            click.echo(piece, nl=False)
        click.echo()
        return
    budget = {} if batch_tokens is None else {"batch_tokens": batch_tokens}
    languages = {"src_lang": src_lang, "tgt_lang": tgt_lang}
    result = options.with_progress(model.generate, prompts, **languages, **given, **budget)
    for prompt, text in zip(prompts, result, strict=True):
        several = [text] if isinstance(text, str) else text
        for one in several:
            click.echo(json.dumps({"prompt": prompt, "text": one}) if as_json else one)


@click.command()
@options.bundle
@click.argument("sounds", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--language", help="What is spoken, as fr (default: what the model hears).")
@click.option(
    "--task",
    type=click.Choice(["transcribe", "translate"]),
    help="Default: what the checkpoint says, or else to write down.",
)
@click.option("--max-new-tokens", type=int, help="Default: what the checkpoint says, or else 20.")
@options.batch_tokens(8192)
@options.answers
def transcribe(
    out: Path,
    sounds: tuple[Path, ...],
    as_json: bool,
    **chosen: Any,
) -> None:
    """Write down the WAV files SOUNDS, or translate them into English."""
    result = options.run(out, "transcribe", list(sounds), **chosen)
    for sound, text in zip(sounds, result, strict=True):
        click.echo(json.dumps({"sound": str(sound), "text": text}) if as_json else text)
