"""Commands for audio. Each calls the Model's method of the same name."""

from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answers


@click.command()
@options.bundle
@options.texts("SOUNDS")
@click.option("--top-k", type=options.TOP_K, default=5, show_default=True, help="Number of labels for each.")
@click.option("--truncate", is_flag=True, help="Truncate sounds that are too long for the model.")
@options.batch_size
@options.answers(options.IMAGES)
def classify_audio(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Classify the WAV files SOUNDS: labels with their probabilities."""
    windows = answers.ask(inputs.lines(texts, file), "classify_audio", **chosen)
    answers.show(
        windows, lambda sound, labels: {"sound": sound, "labels": labels}, ["sound"], ["label", "score"]
    )
