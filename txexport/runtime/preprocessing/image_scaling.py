"""Heights and widths of images after resizing, in pixels."""

import math

from txexport.runtime.preprocessing.image_fitting import Fitted
from txexport.runtime.preprocessing.image_frames import Framed
from txexport.runtime.preprocessing.image_packing import Packing
from txexport.runtime.preprocessing.image_sizes import (
    SMALLEST,
    Bounded,
    Floored,
    Longest,
    Multiples,
    Patched,
    Size,
)
from txexport.runtime.preprocessing.image_tiles import Canvas


def resized(height: int, width: int, size: Size) -> tuple[int, int]:
    """Height and width after resizing; for the shorter edge alone, at the same aspect, rounded down."""
    if isinstance(size, tuple):
        return size
    if isinstance(size, Bounded):
        return _bounded(height, width, size)
    if isinstance(size, Multiples):
        return _multiples(height, width, size)
    if isinstance(size, Longest):
        scale = size.edge / max(height, width)
        return int(height * scale + 0.5), int(width * scale + 0.5)
    if isinstance(size, Packing | Fitted):
        return size.resized(height, width)
    if isinstance(size, Patched):
        return _patched(height, width, size)
    if isinstance(size, Floored):
        return height - height % size.multiple, width - width % size.multiple
    if isinstance(size, Canvas | Framed):
        return size.height, size.width
    assert isinstance(size, int)
    long = int(size * max(height, width) / min(height, width))
    return (long, size) if width <= height else (size, long)


def _patched(height: int, width: int, size: Patched) -> tuple[int, int]:
    """Height and width of whole patches, by the largest scale at which there are not too many.

    The scale is found by bisection, as in transformers, to the last bit.
    """

    def edges_at(scale: float) -> tuple[int, int]:
        high, wide = (math.ceil(side * scale / size.side) * size.side for side in (height, width))
        return max(size.side, high), max(size.side, wide)

    least, most = SMALLEST / 10, 100.0
    while most - least >= SMALLEST:
        scale = (least + most) / 2
        high, wide = edges_at(scale)
        if (high / size.side) * (wide / size.side) <= size.most:
            least = scale
        else:
            most = scale
    return edges_at(least)


def _bounded(height: int, width: int, size: Bounded) -> tuple[int, int]:
    """Height and width by the shorter edge, or less where the longer one would exceed its bound."""
    short, long = float(min(height, width)), float(max(height, width))
    exact: float = size.shortest
    if long / short * size.shortest > size.longest:
        exact = size.longest * short / long
    edge = round(exact)
    if size.rounding.narrow and width <= height and width == edge:
        high, wide = height, width
    elif width < height:
        high, wide = int(exact * height / width), edge
    elif height == edge:
        high, wide = height, width
    else:
        high, wide = edge, int(exact * width / height)
    return size.rounding.of(high, wide)


def _multiples(height: int, width: int, size: Multiples) -> tuple[int, int]:
    """Height and width, each rounded to the nearest multiple, of two as near to the even one."""
    high, wide = size.height / height, size.width / width
    if size.keep_aspect:
        high = wide = wide if abs(1 - wide) < abs(1 - high) else high
    rows, columns = round(high * height / size.multiple), round(wide * width / size.multiple)
    return rows * size.multiple, columns * size.multiple
