"""Values of images, resized, cut or padded; H is a height, W a width."""

import numpy as np

from txexport.errors import InputError


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
