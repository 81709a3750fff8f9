"""The command for poses of bodies in images. It calls the Model's method of the same name."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answered, Answers
from txexport.cli.drawings import drawings, with_poses
from txexport.cli.inputs import Inputs
from txexport.cli.mask_tasks import pixels


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option(
    "--box",
    "boxes",
    multiple=True,
    help="A box around a body, as LEFT,TOP,RIGHT,BOTTOM in pixels; repeatable. Without it, the whole image.",
)
@click.option("--threshold", type=float, help="Points with a lower score are left out.")
@click.option(
    "--draw",
    type=click.Path(path_type=Path),
    help="Write the image with its poses to this file; for several images, a folder of PNG files.",
)
@options.batch_size
@options.answers(options.IMAGES)
def pose(
    answers: Answers,
    texts: tuple[str, ...],
    file: Path | None,
    boxes: tuple[str, ...],
    draw: Path | None,
    **chosen: Any,
) -> None:
    """Find the points of bodies in the image files IMAGES.

    Prints the points with their scores and places in pixels. --json gives those of each box, --draw a
    picture.
    """
    numbers = [pixels("--box", box, (4,)) for box in boxes] or None
    values = Inputs([(one.value, numbers) for one in inputs.lines(texts, file)], None)
    windows = answers.ask(values, "pose", **chosen)
    named: Iterator[list[Answered]] = (
        [(replace(one, value=one.value[0]), answer) for one, answer in window] for window in windows
    )
    if draw is not None:
        named = drawings(named, draw, texts, file, with_poses(answers.out))
    record = _poses if answers.as_json else _points
    answers.show(named, record, ["image"], ["box", "label", "score", "x", "y"])


def _poses(image: Any, poses: Any) -> dict[str, Any]:
    """The record of an image with the points of every box."""
    return {"image": image, "poses": poses}


def _points(image: Any, poses: Any) -> dict[str, Any]:
    """The record of an image with all points, each with the number of its box."""
    points = [{"box": number, **point} for number, one in enumerate(poses, 1) for point in one["keypoints"]]
    return {"image": image, "points": points}
