"""Images of any size in whole squares of pixels, within a largest height and width, as in Pixtral."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txexport.errors import UnsupportedError, shown
from txexport.runtime.preprocessing.image_tiles import MOST_PIXELS


@dataclass(frozen=True)
class Fitted:
    """The largest height and width of an image, and the side of squares that fill it."""

    height: int
    width: int
    side: int

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of whole squares: those of a smaller image at the same aspect, rounded up."""
        ratio = max(height / self.height, width / self.width)
        if ratio > 1:
            height, width = math.floor(height / ratio), math.floor(width / ratio)
        return -(-height // self.side) * self.side, -(-width // self.side) * self.side


def fitted_of(options: Mapping[str, Any]) -> Fitted:
    """The size in a processor's settings. Raises UnsupportedError for other values."""
    size, patch = options["size"], options["patch_size"]
    size = size if isinstance(size, Mapping) else {}
    longest = size.get("longest_edge")
    bounds = [longest, longest] if longest else [size.get("height"), size.get("width")]
    sides = [patch.get("height"), patch.get("width")] if isinstance(patch, Mapping) else [patch, patch]
    numbers = [one for one in (*bounds, *sides) if type(one) is int and 1 <= one <= MOST_PIXELS]
    if len(numbers) < 4 or numbers[2] != numbers[3]:
        raise UnsupportedError(
            f"image processor: size {shown(options['size'])} with patch_size {shown(patch)} is not "
            f"supported; expected a height and a width, or a longest_edge, up to {MOST_PIXELS:,}"
        )
    if not options["do_resize"]:
        raise UnsupportedError(
            "image processor: do_resize false is not supported for patches; set it to true"
        )
    return Fitted(*numbers[:3])
