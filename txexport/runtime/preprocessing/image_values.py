"""Values of images, resized, cut or padded; H is a height, W a width."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txexport.contracts.names import PIXEL_ATTENTION_MASK, PIXEL_VALUES, SPATIAL_SHAPES
from txexport.errors import BundleError, InputError, shown
from txexport.runtime.preprocessing.image_sizes import Patched


def padded(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Values (3,H,W) with zeros at the bottom and on the right (3,height,width)."""
    down, across = height - values.shape[1], width - values.shape[2]
    if min(down, across) < 0:
        raise InputError(
            f"an image becomes {values.shape[2]} x {values.shape[1]}, expected at most {width} x {height}"
        )
    return np.pad(values, ((0, 0), (0, down), (0, across)))


def resized_values(values: np.ndarray, size: tuple[int, int], resample: int) -> np.ndarray:
    """Values (H,W,3) float32 resized to (3,height,width) without rounding to bytes."""
    from PIL import Image

    return np.stack(
        [np.asarray(Image.fromarray(band).resize(size, resample)) for band in values.transpose(2, 0, 1)]
    )


def center_crop(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """The center of pixels (H,W,3) as (height,width,3); black where the image is smaller.

    An odd margin is rounded down when cropping and up when padding: floor division of a negative number.
    """
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    part = pixels[max(top, 0) :, max(left, 0) :][:height, :width]
    y, x = max(-top, 0), max(-left, 0)
    result = np.zeros((height, width, 3), np.uint8)
    result[y : y + part.shape[0], x : x + part.shape[1]] = part
    return result


def in_patches(rows: Sequence[np.ndarray], size: Patched) -> dict[str, np.ndarray]:
    """Images (3,H,W) of whole patches as patches (B,P,numbers), their mask (B,P), rows and columns (B,2)."""
    side = size.side
    values = np.zeros((len(rows), size.most, 3 * side**2), np.float32)
    shapes = np.array([(row.shape[1] // side, row.shape[2] // side) for row in rows], np.int64)
    for row, (high, wide), patches in zip(rows, shapes, values, strict=True):
        squares = row.reshape(3, high, side, wide, side).transpose(1, 3, 2, 4, 0)
        patches[: high * wide] = squares.reshape(high * wide, -1)
    mask = np.arange(size.most) < shapes.prod(axis=1)[:, None]
    return {PIXEL_VALUES: values, PIXEL_ATTENTION_MASK: mask.astype(np.int64), SPATIAL_SHAPES: shapes}


def centred(values: np.ndarray, multiple: int) -> np.ndarray:
    """Values (3,H,W) with zeros around them, so that both edges are multiples; the odd one is behind."""
    more = [-side % multiple for side in values.shape[1:]]
    return np.pad(values, ((0, 0), *((one // 2, one - one // 2) for one in more)))


def mean_and_deviation(options: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """The mean and deviation (3,1,1) of each channel, or (1,1,1); None where values are not normalised."""
    if not options["do_normalize"]:
        return None
    mean, deviation = (np.asarray(options[name], np.float32) for name in ("image_mean", "image_std"))
    return mean.reshape(-1, 1, 1), deviation.reshape(-1, 1, 1)


def levels_of(options: dict[str, Any]) -> np.ndarray:
    """The value of each byte in each channel, (256,3) float32, rounded where transformers rounds."""
    levels = np.arange(256, dtype=np.float64)[:, None]  # (256, 1)
    try:
        with np.errstate(all="ignore"):  # the result is checked below
            if options["do_rescale"]:
                levels = levels * float(options["rescale_factor"])
            levels = levels.astype(np.float32)
            if options["do_normalize"]:
                mean, std = (np.asarray(options[name], np.float32) for name in ("image_mean", "image_std"))
                levels = (levels - mean) / std  # (256, 3), or (256, 1) for single numbers
        if not np.isfinite(levels).all():
            raise ValueError
        return np.broadcast_to(levels, (256, 3))
    except (TypeError, ValueError, OverflowError):
        message = ", ".join(
            f"{name} {shown(options[name])}" for name in ("rescale_factor", "image_mean", "image_std")
        )
        raise BundleError(f"image processor: {message}; expected a number, and one or three each") from None
