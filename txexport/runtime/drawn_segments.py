"""A picture of an image with its parts in colours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from txexport.runtime.drawn_boxes import BRIGHT, colour

if TYPE_CHECKING:
    from PIL.Image import Image

SHARE = 0.6  # of a part's colour over the image


def painted(image: "Image", masks: Sequence[np.ndarray]) -> "Image":
    """A copy of an RGB image with each mask (H,W) in a colour."""
    from PIL import Image

    pixels = np.asarray(image, np.float32).copy()
    for index, mask in enumerate(masks):
        pixels[mask] = (1 - SHARE) * pixels[mask] + SHARE * np.array(colour(index), np.float32)
    return Image.fromarray(pixels.round().astype(np.uint8))


def coloured(image: "Image", segments: Sequence[Any]) -> "Image":
    """A copy of an RGB image with each part in a colour, as `segment` returns them, and a legend below."""
    from PIL import Image, ImageDraw, ImageFont

    inks = [colour(index) for index in range(len(segments))]
    over = painted(image, [one["mask"] for one in segments])
    font = ImageFont.load_default(max(10, min(image.size) // 30))
    margin = max(4, min(image.size) // 80)
    corners: list[tuple[int, int, int, int]] = []
    pen, x, y, high = ImageDraw.Draw(over), margin, margin, 0
    for one in segments:
        _, _, wide, tall = (int(edge) for edge in pen.textbbox((0, 0), one["label"], font=font))
        if x > margin and x + wide + 3 * margin > image.width:
            x, y = margin, y + high + margin
        high = tall + 2 * margin
        corners.append((x, y, x + wide + 2 * margin, y + high))
        x += wide + 3 * margin
    picture = Image.new("RGB", (image.width, image.height + y + high + margin), "white")
    picture.paste(over)
    pen = ImageDraw.Draw(picture)
    for one, ink, (left, top, right, bottom) in zip(segments, inks, corners, strict=True):
        pen.rectangle((left, image.height + top, right, image.height + bottom), fill=ink)
        bright = 0.3 * ink[0] + 0.59 * ink[1] + 0.11 * ink[2] > BRIGHT
        place = left + margin, image.height + top + margin
        pen.text(place, one["label"], fill="black" if bright else "white", font=font)
    return picture
