"""Sizes that image processors resize to, in pixels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from txexport.errors import UnsupportedError, shown
from txexport.runtime.preprocessing.image_fitting import Fitted, fitted_of
from txexport.runtime.preprocessing.image_frames import Framed, framed_of
from txexport.runtime.preprocessing.image_mosaics import Mosaic, mosaic_of
from txexport.runtime.preprocessing.image_packing import Packing, packing_of
from txexport.runtime.preprocessing.image_splits import Splitting, splitting_of
from txexport.runtime.preprocessing.image_tiles import Canvas, Tiled, canvas_of, tiled_of
from txexport.runtime.preprocessing.padded_tiles import PaddedTiles, padded_tiles_of

LARGEST_DIVISOR = 2**12
WARPED = 384  # the least edge of a square to which images are resized without a crop
SMALLEST = 1e-5  # step of a scale that is found by bisection


@dataclass(frozen=True)
class Rounding:
    """Edges as multiples of a number: rounded down, or with `up` up.

    An image whose shorter edge is right keeps its size; one that is higher than wide only if `narrow`.
    """

    multiple: int = 1
    up: bool = False
    narrow: bool = True

    def of(self, height: int, width: int) -> tuple[int, int]:
        """Height and width as multiples."""
        if self.up:
            return height + -height % self.multiple, width + -width % self.multiple
        return height - height % self.multiple, width - width % self.multiple


@dataclass(frozen=True)
class Bounded:
    """The length of the shorter edge, the greatest one of the longer, and how both are rounded."""

    shortest: int
    longest: int
    rounding: Rounding


@dataclass(frozen=True)
class Multiples:
    """Height and width, and what both are rounded to multiples of.

    With `keep_aspect`, both are scaled alike, by the factor of the edge that changes least.
    """

    height: int
    width: int
    multiple: int
    keep_aspect: bool


@dataclass(frozen=True)
class Longest:
    """The length of the longer edge; the other is rounded."""

    edge: int


@dataclass(frozen=True)
class Floored:
    """The number that height and width are rounded down to multiples of."""

    multiple: int


@dataclass(frozen=True)
class Patched:
    """The side of square patches, and the most of them that an image has."""

    side: int
    most: int


# Height and width; the shorter edge; both within bounds; both as multiples; the longer edge; as
# the image, rounded down; as many patches as there may be, or within bounds, or split; tiles.
Size = (
    tuple[int, int]
    | int
    | Bounded
    | Multiples
    | Longest
    | Floored
    | Patched
    | Packing
    | Mosaic
    | Tiled
    | Canvas
    | Framed
    | Splitting
    | Fitted
    | PaddedTiles
)


def size_for(
    defaults: Mapping[str, Any], options: Mapping[str, Any], longest: bool, rounding: Rounding | None
) -> Size:
    """The size in a processor's settings; `defaults` are those of its kind.

    It is that of the `longest` edge alone, or with a `rounding` both edges have bounds. Raises
    UnsupportedError for another size.
    """
    if options.get("do_pan_and_scan"):
        raise UnsupportedError("image processor: do_pan_and_scan is not supported; set it to false")
    if "image_grid_pinpoints" in defaults:
        return mosaic_of(options)
    if "max_pixels_tolerance" in defaults:
        return splitting_of(options)
    if "max_image_tiles" in defaults:
        return padded_tiles_of(options)
    if "max_image_size" in defaults:
        return tiled_of(options)
    if "do_thumbnail" in defaults:
        return framed_of(options)
    if "crop_to_patches" in defaults:
        return canvas_of(options)
    if "merge_size" in defaults:
        return packing_of(options)
    if "max_num_patches" in defaults:
        return patched_of(options)
    if "patch_size" in defaults:
        return fitted_of(options)
    if defaults["size"] is None:
        return floored_of(options)
    if longest:
        return longest_of(options)
    if "ensure_multiple_of" in defaults:
        return multiples_of(options)
    return size_of(options, rounding_of(options, rounding))


def rounding_of(options: Mapping[str, Any], rounding: Rounding | None) -> Rounding | None:
    """The rounding of a processor, to multiples of its size_divisor if it has one."""
    if rounding is None or "size_divisor" not in options:
        return rounding
    divisor = options["size_divisor"]
    if type(divisor) is not int or divisor < 0:
        raise UnsupportedError(
            f"image processor: size_divisor {shown(divisor)} is not supported; expected a number from 0"
        )
    return replace(rounding, multiple=max(divisor, 1))


def size_of(options: Mapping[str, Any], rounding: Rounding | None) -> Size:
    """The size in a processor's settings; with a `rounding`, the longer edge has a bound too.

    Raises UnsupportedError for another size.
    """
    size = options["size"]
    if rounding is None:
        return edges("size", size, options["default_to_square"])
    if isinstance(size, int) and "max_size" in options:
        size = {"shortest_edge": size, "longest_edge": options["max_size"]}
    if isinstance(size, dict) and size.keys() == {"shortest_edge", "longest_edge"}:
        bounds = size["shortest_edge"], size["longest_edge"]
        if all(type(edge) is int and edge >= rounding.multiple for edge in bounds):
            return Bounded(*bounds, rounding)
        raise UnsupportedError(
            f"image processor: size {shown(size)} is not supported; expected edges of {rounding.multiple} or "
            "more"
        )
    result = edges("size", size, False)
    if isinstance(result, int):
        raise UnsupportedError(
            f"image processor: size {shown(size)} is not supported; expected height and width, or "
            "shortest_edge and longest_edge"
        )
    return rounding.of(*result) if rounding.up else result


def multiples_of(options: Mapping[str, Any]) -> Multiples:
    """The size in the settings of a processor with ensure_multiple_of and keep_aspect_ratio.

    Raises UnsupportedError for another size.
    """
    size, multiple, keep = (options[name] for name in ("size", "ensure_multiple_of", "keep_aspect_ratio"))
    both = edges("size", size, True)
    if isinstance(both, int):
        raise UnsupportedError(
            f"image processor: size {shown(size)} is not supported; expected height and width"
        )
    if type(multiple) is not int or multiple < 1 or not isinstance(keep, bool):
        raise UnsupportedError(
            f"image processor: ensure_multiple_of {shown(multiple)} and keep_aspect_ratio {shown(keep)} are "
            "not supported; expected a number from 1, and true or false"
        )
    return Multiples(*both, multiple, keep)


def longest_of(options: Mapping[str, Any]) -> Longest:
    """The longer edge in a processor's settings. Raises UnsupportedError for another size."""
    size = options["size"]
    edge = size.get("longest_edge") if isinstance(size, dict) and len(size) == 1 else None
    if type(edge) is not int or edge < 1:
        raise UnsupportedError(f"image processor: size {shown(size)} is not supported; expected longest_edge")
    return Longest(edge)


def floored_of(options: Mapping[str, Any]) -> Floored:
    """The multiple in a processor's settings. Raises UnsupportedError for another value."""
    multiple = options["size_divisor"]
    if type(multiple) is not int or multiple < 1:
        raise UnsupportedError(
            f"image processor: size_divisor {shown(multiple)} is not supported; expected a number from 1"
        )
    return Floored(multiple)


def share_kept(options: Mapping[str, Any]) -> dict[str, Any]:
    """The size and the crop in the settings of a processor with crop_pct, as other processors have them.

    A square of fewer than WARPED pixels a side is cut out of an image whose shorter edge is longer by that
    share; to a larger one, images are resized in both directions. Raises UnsupportedError for other values.
    """
    if not options["do_resize"]:
        return {}
    edge, share = edges("size", options["size"], options["default_to_square"]), options["crop_pct"]
    if options["do_center_crop"] or not isinstance(edge, int):
        raise UnsupportedError(
            f"image processor: size {shown(options['size'])} with do_center_crop "
            f"{options['do_center_crop']} is not supported beside crop_pct; expected shortest_edge and False"
        )
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise UnsupportedError(
            f"image processor: crop_pct {shown(share)} is not supported; expected a number above 0, up to 1"
        )
    if edge >= WARPED:
        return {"size": {"height": edge, "width": edge}}
    return {"size": {"shortest_edge": int(edge / share)}, "do_center_crop": True, "crop_size": edge}


def patched_of(options: Mapping[str, Any]) -> Patched:
    """The patches in a processor's settings. Raises UnsupportedError for other values."""
    side, most = options["patch_size"], options["max_num_patches"]
    if any(type(value) is not int or value < 1 for value in (side, most)):
        raise UnsupportedError(
            f"image processor: patch_size {shown(side)} and max_num_patches {shown(most)} are not supported; "
            "expected numbers from 1"
        )
    return Patched(side, most)


def divisor_of(options: Mapping[str, Any]) -> int:
    """The number that edges become multiples of, 1 for none. Raises UnsupportedError for another value."""
    divisor = options.get("size_divisor")
    if divisor is None:
        return 1
    if type(divisor) is not int or not 1 <= divisor <= LARGEST_DIVISOR:
        raise UnsupportedError(
            f"image processor: size_divisor {shown(divisor)} is not supported; expected a number from 1"
        )
    return divisor


def pixels_of(size: Size | None) -> int:
    """The most pixels that a size stands for, as far as its numbers say."""
    if isinstance(size, Bounded):
        return size.shortest * size.longest
    if isinstance(size, Multiples):
        return size.height * size.width
    if isinstance(size, Longest):
        return size.edge**2
    if isinstance(size, Floored):
        return size.multiple**2
    if isinstance(size, Patched):
        return size.most * size.side**2
    if isinstance(size, Packing):
        return size.most * size.frames
    if isinstance(size, Splitting):
        return max(size.most * size.square**2, size.tile**2 * size.most_tiles)
    if isinstance(size, PaddedTiles):
        return size.side**2 * size.most
    if isinstance(size, Canvas):
        return size.height * size.width * size.most
    if isinstance(size, Framed | Fitted):
        return size.height * size.width
    if isinstance(size, Mosaic):
        return max(high * wide for high, wide in size.canvases)
    if isinstance(size, Tiled):
        return max(size.side, size.longest or 0) ** 2
    height, width = (size, size) if isinstance(size, int) else size or (1, 1)
    return height * width


def edges(name: str, value: Any, square: bool) -> tuple[int, int] | int:
    """Height and width, or the length of the shorter edge alone. Raises UnsupportedError for another size."""
    if isinstance(value, int):
        value = {"height": value, "width": value} if square else {"shortest_edge": value}
    elif isinstance(value, list) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    sides = list(value.values()) if isinstance(value, dict) else []
    valid = all(isinstance(edge, int) and not isinstance(edge, bool) and edge > 0 for edge in sides)
    if valid and sides and value.keys() == {"height", "width"}:
        return value["height"], value["width"]
    if valid and sides and value.keys() == {"shortest_edge"}:
        return value["shortest_edge"]
    expected = "height and width, or shortest_edge"
    raise UnsupportedError(f"image processor: {name} {shown(value)} is not supported; expected {expected}")
