"""Commands for masks of objects in images. Each calls the Model's method of the same name."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answered, Answers
from txexport.cli.drawings import drawings, with_mask, with_masks
from txexport.cli.inputs import Inputs
from txexport.runtime.run_lengths import run_lengths


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option(
    "--point",
    "points",
    multiple=True,
    help="A point of the object, as X,Y in pixels; X,Y,0 for one outside of it; repeatable.",
)
@click.option("--box", help="A box around the object, as LEFT,TOP,RIGHT,BOTTOM in pixels.")
@click.option("--one", "one_mask", is_flag=True, help="One mask instead of three, for an unambiguous prompt.")
@click.option(
    "--draw",
    type=click.Path(path_type=Path),
    help="Write the image with the likeliest mask to this file; for several, a folder of PNG files.",
)
@options.batch_size
@options.answers(options.IMAGES)
def masks(
    answers: Answers,
    texts: tuple[str, ...],
    file: Path | None,
    points: tuple[str, ...],
    box: str | None,
    one_mask: bool,
    draw: Path | None,
    **chosen: Any,
) -> None:
    """Find the pixels of an object in the image files IMAGES, by points and a box.

    Prints the masks with their scores, the likeliest first. --json gives them as run lengths, --draw a
    picture.
    """
    prompt = _prompt(points, box)
    images = inputs.lines(texts, file)
    values = Inputs([(one.value, prompt) for one in images], None)
    windows = answers.ask(values, "masks", several_masks=not one_mask, **chosen)
    named: Iterator[list[Answered]] = (
        [(replace(one, value=one.value[0]), answer) for one, answer in window] for window in windows
    )
    if draw is not None:
        named = drawings(named, draw, texts, file, with_mask)
    record = _scored_masks if answers.as_json else _scored_shares
    answers.show(named, record, ["image"], ["score", "share", "pixels"])


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option(
    "--points-per-side",
    type=click.IntRange(1, 1024),
    default=32,
    show_default=True,
    help="Number of points on each side of the grid.",
)
@click.option(
    "--min-score",
    type=click.FloatRange(0, 1),
    default=0.88,
    show_default=True,
    help="Masks with a lower score are left out.",
)
@click.option(
    "--min-stability",
    type=click.FloatRange(0, 1),
    default=0.95,
    show_default=True,
    help="Masks that keep a smaller share of their pixels, when the threshold of their logits rises from "
    "-1 to 1, are left out.",
)
@click.option(
    "--overlap",
    type=click.FloatRange(0, 1),
    default=0.7,
    show_default=True,
    help="Of masks whose boxes have a larger intersection over union, only the likeliest stays.",
)
@click.option(
    "--crop-layers",
    type=click.IntRange(0, 5),
    default=0,
    show_default=True,
    help="Number of layers of crops to search too: 4 crops in the first, 16 in the second.",
)
@click.option(
    "--crop-overlap",
    type=click.FloatRange(0, 1, max_open=True),
    default=512 / 1500,
    show_default="0.34",
    help="Share of the shorter edge by which crops of the first layer overlap.",
)
@click.option(
    "--draw",
    type=click.Path(path_type=Path),
    help="Write the image with all masks in colours to this file; for several, a folder of PNG files.",
)
@options.batch_size
@options.answers(options.IMAGES)
def all_masks(
    answers: Answers, texts: tuple[str, ...], file: Path | None, draw: Path | None, **chosen: Any
) -> None:
    """Find the pixels of everything in the image files IMAGES, by a grid of points.

    Prints the masks with their scores, the likeliest first. --json gives them as run lengths, --draw a
    picture.
    """
    windows = answers.ask(inputs.lines(texts, file), "all_masks", **chosen)
    if draw is not None:
        windows = drawings(windows, draw, texts, file, with_masks)
    record = _scored_masks if answers.as_json else _scored_shares
    answers.show(windows, record, ["image"], ["score", "share", "pixels"])


def _prompt(points: tuple[str, ...], box: str | None) -> dict[str, Any]:
    """The prompt of options, which the Model's method checks further."""
    if not points and box is None:
        raise click.UsageError("give --point X,Y or --box LEFT,TOP,RIGHT,BOTTOM")
    rows = [pixels("--point", point, (2, 3)) for point in points]
    prompt: dict[str, Any] = {
        "points": [row[:2] for row in rows],
        "labels": [1 if len(row) == 2 else int(row[2]) for row in rows],
    }
    return prompt if box is None else prompt | {"box": pixels("--box", box, (4,))}


def pixels(option: str, value: str, counts: tuple[int, ...]) -> list[float]:
    """The numbers of an option, separated by commas."""
    try:
        numbers = [float(part) for part in value.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in counts:
        expected = " or ".join(map(str, counts))
        raise click.UsageError(f"{option} {value}: expected {expected} numbers separated by commas")
    return numbers


def _scored_masks(image: Any, answer: Any) -> dict[str, Any]:
    """The record of an image with masks as run lengths."""
    return {"image": image, "masks": [one | {"mask": run_lengths(one["mask"])} for one in answer]}


def _scored_shares(image: Any, answer: Any) -> dict[str, Any]:
    """The record of an image with the sizes of masks."""
    rows = [
        {"score": one["score"], "share": float(one["mask"].mean()), "pixels": int(one["mask"].sum())}
        for one in answer
    ]
    return {"image": image, "masks": rows}
