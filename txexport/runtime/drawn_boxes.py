"""A picture of an image with the boxes of its objects."""

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

GOLDEN = 0.618034  # steps of hue after which colours are farthest from those before
BRIGHT = 150  # of 255: labels on brighter colours are black


def colour(index: int) -> tuple[int, int, int]:
    """The colour of a label by its number: red, green and blue."""
    red, green, blue = colorsys.hsv_to_rgb((0.6 + index * GOLDEN) % 1, 0.75, 0.9)
    return round(red * 255), round(green * 255), round(blue * 255)


def drawn(image: "Image", objects: Sequence[Any]) -> "Image":
    """A copy of an RGB image with the box, label and score of each object, as `detect` returns them."""
    from PIL import ImageDraw, ImageFont

    picture = image.copy()
    pen, side = ImageDraw.Draw(picture), min(picture.size)
    line, font = max(2, side // 200), ImageFont.load_default(max(10, side // 40))
    order = {label: index for index, label in enumerate(dict.fromkeys(one["label"] for one in objects))}
    for one in reversed(objects):  # the likeliest on top
        ink = colour(order[one["label"]])
        left, top, right, bottom = (one["box"][edge] for edge in ("xmin", "ymin", "xmax", "ymax"))
        if left > right or top > bottom:
            continue
        pen.rectangle((left, top, right, bottom), outline=ink, width=line)
        text = f"{one['label']} {one['score']:.2f}"
        _, _, wide, high = pen.textbbox((0, 0), text, font=font)
        x = min(max(left, 0), max(picture.width - wide - 2 * line, 0))
        y = top - high - 2 * line if top > high + 2 * line else max(top, 0)
        pen.rectangle((x, y, x + wide + 2 * line, y + high + 2 * line), fill=ink)
        bright = 0.3 * ink[0] + 0.59 * ink[1] + 0.11 * ink[2] > BRIGHT
        pen.text((x + line, y + line), text, fill="black" if bright else "white", font=font)
    return picture
