"""Commands for images. Each calls the Model's method of the same name."""

from itertools import chain
from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answers
from txexport.cli.drawings import drawings, with_boxes, with_depths, with_segments
from txexport.cli.inputs import Inputs
from txexport.cli.vectors import show_vectors
from txexport.runtime.run_lengths import run_lengths

SHARE = click.FloatRange(0, 1, max_open=True)


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option("--top-k", type=options.TOP_K, default=5, show_default=True, help="Number of labels for each.")
@options.batch_size
@options.answers(options.IMAGES)
def classify_image(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Classify the image files IMAGES: labels with their probabilities."""
    windows = answers.ask(inputs.lines(texts, file), "classify_image", **chosen)
    answers.show(
        windows, lambda image, labels: {"image": image, "labels": labels}, ["image"], ["label", "score"]
    )


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option(
    "--pooling", show_default="cls; none for CLIP", help="Pooling of the patches: cls, mean or pooler."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the vectors to this file: a float32 NumPy array (.npy), a row for each image.",
)
@click.option("--normalize", is_flag=True, help="L2-normalise the vectors; CLIP's always are.")
@options.batch_size
@options.answers(options.IMAGES)
def embed_image(
    answers: Answers, texts: tuple[str, ...], file: Path | None, output: Path | None, **chosen: Any
) -> None:
    """Embed the image files IMAGES.

    Prints a table of cosine similarities. --json or --output give the vectors.
    """
    windows = answers.ask(inputs.lines(texts, file), "embed_image", **chosen)
    show_vectors("image", windows, answers, output)


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option(
    "--threshold",
    type=SHARE,
    default=0.5,
    show_default=True,
    help="Objects with a lower probability are left out.",
)
@click.option(
    "--draw",
    type=click.Path(path_type=Path),
    help="Write the image with its boxes to this file; for several images, a folder of PNG files.",
)
@options.batch_size
@options.answers(options.IMAGES)
def detect(
    answers: Answers, texts: tuple[str, ...], file: Path | None, draw: Path | None, **chosen: Any
) -> None:
    """Detect the objects in the image files IMAGES: labels, probabilities and boxes in pixels."""
    windows = answers.ask(inputs.lines(texts, file), "detect", **chosen)
    if draw is not None:
        windows = drawings(windows, draw, texts, file, with_boxes)
    answers.show(
        windows,
        lambda image, objects: {"image": image, "objects": objects},
        ["image"],
        ["label", "score", "box"],
    )


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option(
    "--draw",
    type=click.Path(path_type=Path),
    help="Write the depths as a picture to this file; for several images, a folder of PNG files.",
)
@options.batch_size
@options.answers(options.IMAGES)
def depth(
    answers: Answers, texts: tuple[str, ...], file: Path | None, draw: Path | None, **chosen: Any
) -> None:
    """Estimate the depth of every pixel of the image files IMAGES.

    Prints the least, the mean and the greatest depth. --json gives all of them, --draw a picture.
    """
    windows = answers.ask(inputs.lines(texts, file), "depth", **chosen)
    if draw is not None:
        windows = drawings(windows, draw, texts, file, with_depths)
    record = _all_depths if answers.as_json else _range
    answers.show(windows, record, ["image"], ["height", "width", "least", "mean", "greatest"])


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option(
    "--text",
    "described",
    multiple=True,
    help="Text that describes a part, for a model that reads texts; repeatable.",
)
@click.option(
    "--kind",
    type=click.Choice(["panoptic", "instance", "semantic"]),
    show_default="the first that the model has",
    help="Parts that share no pixel, objects, or the label of every pixel.",
)
@click.option(
    "--threshold",
    type=SHARE,
    default=0.9,
    show_default=True,
    help="Panoptic parts and instances with a lower score are left out.",
)
@click.option(
    "--mask-threshold",
    type=SHARE,
    default=0.5,
    show_default=True,
    help="Pixels with a lower score belong to no panoptic part, and to no part of a text.",
)
@click.option(
    "--overlap-mask-area-threshold",
    type=SHARE,
    default=0.5,
    show_default=True,
    help="Panoptic parts that keep a smaller share of their pixels, after others took theirs, are left out.",
)
@click.option(
    "--draw",
    type=click.Path(path_type=Path),
    help="Write the image with its parts in colours to this file; for several, a folder of PNG files.",
)
@options.truncate
@options.batch_size
@options.answers(options.IMAGES)
def segment(
    answers: Answers,
    texts: tuple[str, ...],
    file: Path | None,
    described: tuple[str, ...],
    draw: Path | None,
    **chosen: Any,
) -> None:
    """Segment the image files IMAGES: the label of every pixel, parts with a score, or parts of each --text.

    Prints each part with its share of the pixels. --json gives masks as run lengths, --draw a picture.
    """
    windows = answers.ask(inputs.lines(texts, file), "segment", texts=list(described) or None, **chosen)
    if draw is not None:
        windows = drawings(windows, draw, texts, file, with_segments)
    record = _masks if answers.as_json else _shares
    first = next(windows, [])
    scored = any(_scored(answer) for _, answer in first)
    columns = ["label", *["score"] * scored, "share", "pixels"]
    answers.show(chain([first], windows), record, ["image"], columns)


def _scored(answer: Any) -> bool:
    """Tell whether the parts of an image have scores."""
    return not isinstance(answer, Exception) and any(one["score"] is not None for one in answer)


def _masks(image: Any, segments: Any) -> dict[str, Any]:
    """The record of an image with the masks of its parts, as run lengths."""
    return {"image": image, "segments": [one | {"mask": run_lengths(one["mask"])} for one in segments]}


def _shares(image: Any, segments: Any) -> dict[str, Any]:
    """The record of an image with the sizes of its parts."""
    rows = [
        {
            "label": one["label"],
            **({} if one["score"] is None else {"score": one["score"]}),
            "share": float(one["mask"].mean()),
            "pixels": int(one["mask"].sum()),
        }
        for one in segments
    ]
    return {"image": image, "segments": rows}


def _all_depths(image: Any, answer: Any) -> dict[str, Any]:
    """The record of an image with every depth."""
    return {"image": image} | {name: values.tolist() for name, values in answer.items()}


def _range(image: Any, answer: Any) -> dict[str, Any]:
    """The record of an image with the range of its depths."""
    values = answer["predicted_depth"]
    numbers = {"least": values.min(), "mean": values.mean(dtype="float64"), "greatest": values.max()}
    size = {"height": values.shape[0], "width": values.shape[1]}
    return {"image": image, "depths": [size | {name: float(one) for name, one in numbers.items()}]}


@click.command()
@options.bundle
@click.argument("images", nargs=-1, required=True)
@options.candidates
@click.option(
    "--template",
    default="{}",
    show_default=True,
    help='Template with {} for the text, such as "a photo of {}.".',
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
    """Score each text against the image files IMAGES."""
    candidates = inputs.candidates(texts, file)
    windows = answers.ask(Inputs(images, None), "match", candidates, **chosen)
    answers.show(
        windows, lambda image, labels: {"image": image, "labels": labels}, ["image"], ["label", "score"]
    )


@click.command()
@options.bundle
@click.argument("images", nargs=-1, required=True)
@options.candidates
@click.option(
    "--template",
    default="{}",
    show_default=True,
    help='Template with {} for the text, such as "a photo of {}".',
)
@click.option(
    "--threshold",
    type=SHARE,
    default=0.1,
    show_default=True,
    help="Objects with a lower probability are left out.",
)
@click.option(
    "--draw",
    type=click.Path(path_type=Path),
    help="Write the image with its boxes to this file; for several images, a folder of PNG files.",
)
@options.long_texts
@options.batch_size
@options.answers(options.IMAGES)
def find(
    answers: Answers,
    images: tuple[str, ...],
    texts: tuple[str, ...],
    file: Path | None,
    draw: Path | None,
    **chosen: Any,
) -> None:
    """Find the objects in the image files IMAGES that texts describe: probabilities and boxes in pixels."""
    candidates = inputs.candidates(texts, file)
    windows = answers.ask(Inputs(images, None), "find", candidates, **chosen)
    if draw is not None:
        windows = drawings(windows, draw, images, None, with_boxes)
    answers.show(
        windows,
        lambda image, objects: {"image": image, "objects": objects},
        ["image"],
        ["label", "score", "box"],
    )
