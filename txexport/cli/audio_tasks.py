"""Commands for sounds: each is the Model's method of the same name."""

from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answers


@click.command()
@options.bundle
@options.texts("SOUNDS")
@click.option("--top-k", type=options.TOP_K, default=5, show_default=True, help="How many labels of each.")
@click.option("--truncate", is_flag=True, help="Cut sounds that are longer than the model reads.")
@options.batch_size
@options.answers(options.IMAGES)
def classify_audio(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Labels of the WAV files SOUNDS, and how likely they are."""
    asked = answers.ask(inputs.lines(texts, file), "classify_audio", **chosen)
    answers.show(asked, lambda sound, given: {"sound": sound, "labels": given}, ["sound"], ["label", "score"])
