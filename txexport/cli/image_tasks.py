"""Commands for images: each is the Model's method of the same name."""

from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answers
from txexport.cli.inputs import Inputs
from txexport.cli.vectors import show_vectors


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option("--top-k", type=options.TOP_K, default=5, show_default=True, help="How many labels of each.")
@options.batch_size
@options.answers(options.IMAGES)
def classify_image(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Labels of the image files IMAGES, and how likely they are."""
    asked = answers.ask(inputs.lines(texts, file), "classify_image", **chosen)
    answers.show(asked, lambda image, given: {"image": image, "labels": given}, ["image"], ["label", "score"])


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option(
    "--pooling", show_default="cls; none for CLIP", help="How patches become a vector: cls, mean or pooler."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write them here, as they come: a NumPy array of float32 (.npy), a row each.",
)
@click.option("--normalize", is_flag=True, help="Vectors of length 1, as CLIP's are.")
@options.batch_size
@options.answers(options.IMAGES)
def embed_image(
    answers: Answers, texts: tuple[str, ...], file: Path | None, output: Path | None, **chosen: Any
) -> None:
    """Vectors of the image files IMAGES.

    A table of how alike they are; the vectors themselves with --json or --output.
    """
    asked = answers.ask(inputs.lines(texts, file), "embed_image", **chosen)
    show_vectors("image", asked, answers, output)


@click.command()
@options.bundle
@click.argument("images", nargs=-1, required=True)
@click.option("--text", "texts", multiple=True, help="What may fit; give it again for each text.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The same, from lines; - is standard input.",
)
@click.option(
    "--template",
    default="{}",
    show_default=True,
    help='What the model reads, with {} for a text, as "a photo of {}.".',
)
@options.long_texts
@options.batch_size
@options.answers(options.IMAGES)
def match(
    answers: Answers,
    images: tuple[str, ...],
    texts: tuple[str, ...],
    file: Path | None,
    **chosen: Any,
) -> None:
    """How likely each text is the one that fits, for the image files IMAGES."""
    if bool(texts) == (file is not None):
        raise click.UsageError("give --text TEXT, once for each, or --file FILE")
    candidates = inputs.listed(inputs.lines(texts, file))
    asked = answers.ask(Inputs(images, None), "match", candidates, **chosen)
    answers.show(asked, lambda image, given: {"image": image, "labels": given}, ["image"], ["label", "score"])
