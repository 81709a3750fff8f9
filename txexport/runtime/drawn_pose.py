"""A picture of an image with the poses of its bodies."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txexport.runtime.drawn_boxes import colour
from txexport.runtime.tasks.labels import names

if TYPE_CHECKING:
    from PIL.Image import Image

SURE = 0.3  # the score that a point is drawn from


def skeleton(config: Mapping[str, Any]) -> tuple[list[Sequence[int]], list[str]]:
    """The pairs of points with a line between them, and the labels of points, as config.json has them."""
    named = config.get("id2label")
    labels = list(names(config, len(named))) if isinstance(named, dict) else []
    edges: Any = config.get("edges")
    pairs = [one for one in edges if isinstance(one, list)] if isinstance(edges, list) else []
    known = range(len(labels))
    return [one for one in pairs if len(one) == 2 and all(_is_index(end, known) for end in one)], labels


def _is_index(value: object, known: range) -> bool:
    return type(value) is int and value in known


def drawn(
    image: "Image", poses: Sequence[Any], edges: Sequence[Sequence[int]], labels: Sequence[str]
) -> "Image":
    """A copy of an RGB image with the points of each pose, as `pose` returns them, and lines between them.

    `edges` are pairs of points by their numbers among `labels`. Points that are not sure are left out.
    """
    from PIL import ImageDraw

    picture = image.copy()
    pen, line = ImageDraw.Draw(picture), max(2, min(picture.size) // 150)
    for number, one in enumerate(poses):
        ink = colour(number)
        placed = {
            point["label"]: (point["x"], point["y"]) for point in one["keypoints"] if point["score"] >= SURE
        }
        for ends in edges:
            start, end = (placed.get(labels[index]) for index in ends)
            if start is not None and end is not None:
                pen.line((start, end), fill=ink, width=line)
        for x, y in placed.values():
            pen.ellipse((x - line, y - line, x + line, y + line), fill=ink, outline="white")
    return picture
