"""Commands for audio. Each calls the Model's method of the same name."""

from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answers
from txexport.cli.inputs import Inputs
from txexport.cli.vectors import show_vectors


@click.command()
@options.bundle
@options.texts("SOUNDS")
@click.option("--top-k", type=options.TOP_K, default=5, show_default=True, help="Number of labels for each.")
@click.option("--truncate", is_flag=True, help="Truncate sounds that are too long for the model.")
@options.batch_size
@options.answers(options.IMAGES)
def classify_audio(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Classify the sound files SOUNDS: labels with their probabilities."""
    windows = answers.ask(inputs.lines(texts, file), "classify_audio", **chosen)
    answers.show(
        windows, lambda sound, labels: {"sound": sound, "labels": labels}, ["sound"], ["label", "score"]
    )


@click.command()
@options.bundle
@options.texts("SOUNDS")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="Labels with a lower probability are not part of a turn.",
)
@options.answers(options.IMAGES)
def diarize(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """List the turns of every speaker of the recordings SOUNDS, in seconds."""
    windows = answers.ask(inputs.lines(texts, file), "diarize", **chosen)
    answers.show(
        windows,
        lambda sound, turns: {"sound": sound, "turns": turns},
        ["sound"],
        ["label", "score", "start", "end"],
    )


@click.command()
@options.bundle
@options.texts("SOUNDS")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the vectors to this file: a float32 NumPy array (.npy), a row for each sound.",
)
@click.option("--normalize/--no-normalize", default=True, show_default=True, help="L2-normalise the vectors.")
@options.answers(options.IMAGES)
def embed_speaker(
    answers: Answers, texts: tuple[str, ...], file: Path | None, output: Path | None, **chosen: Any
) -> None:
    """Embed the speakers of the recordings SOUNDS.

    Prints a table of cosine similarities. --json or --output give the vectors.
    """
    windows = answers.ask(inputs.lines(texts, file), "embed_speaker", **chosen)
    show_vectors("sound", windows, answers, output)


@click.command()
@options.bundle
@options.texts("SOUNDS")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the vectors to this file: a float32 NumPy array (.npy), a row for each sound.",
)
@click.option("--truncate", is_flag=True, help="Truncate sounds that are too long for the model.")
@options.batch_size
@options.answers(options.IMAGES)
def embed_audio(
    answers: Answers, texts: tuple[str, ...], file: Path | None, output: Path | None, **chosen: Any
) -> None:
    """Embed the sound files SOUNDS.

    Prints a table of cosine similarities. --json or --output give the vectors.
    """
    windows = answers.ask(inputs.lines(texts, file), "embed_audio", **chosen)
    show_vectors("sound", windows, answers, output)


@click.command()
@options.bundle
@click.argument("sounds", nargs=-1, required=True)
@options.candidates
@click.option(
    "--template",
    default="{}",
    show_default=True,
    help='Template with {} for the text, such as "This is a sound of {}.".',
)
@click.option("--truncate", is_flag=True, help="Truncate sounds and texts that are too long for the model.")
@options.batch_size
@options.answers(options.IMAGES)
def match_audio(
    answers: Answers,
    sounds: tuple[str, ...],
    texts: tuple[str, ...],
    file: Path | None,
    **chosen: Any,
) -> None:
    """Score each text against the sound files SOUNDS."""
    candidates = inputs.candidates(texts, file)
    windows = answers.ask(Inputs(sounds, None), "match_audio", candidates, **chosen)
    answers.show(
        windows, lambda sound, labels: {"sound": sound, "labels": labels}, ["sound"], ["label", "score"]
    )
