"""Depth of the pixels of images; H is a height, W a width."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from txexport.contracts.names import PREDICTED_DEPTH
from txexport.runtime import memory
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.opened_images import Source, several
from txexport.runtime.tasks.image_tasks import BATCH_IMAGES, as_sources, each_output
from txexport.support.arguments import check_count
from txexport.support.progress import Progress, counting

A = np.float32(-0.75)  # of the cubic kernel (Keys 1981), as in PyTorch


class DepthMap(TypedDict):
    """The depths of an image's pixels (H,W) float32, and the same from 0 to 255 (H,W) uint8."""

    predicted_depth: np.ndarray
    depth: np.ndarray


def depth(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    batch_size: int = BATCH_IMAGES,
    progress: Progress | None = None,
) -> DepthMap | list[DepthMap]:
    """The depth of every pixel of an image, or of each of several, at the image's own size.

    `predicted_depth` is the model's, in metres where it was trained so; relative depths are larger for what
    is nearer, and their unit is unknown. `depth` is the same from 0, the least of the image, to 255, the
    greatest. The image's size is that after a rotation that its EXIF data ask for. Only images of equal size
    after resizing are read together. Raises InputError for an invalid image.
    """
    check_task(bundle, "depth")
    check_count("batch_size", batch_size)
    sources, tell = as_sources(images), counting(progress)
    results: list[DepthMap] = []
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        for image, outputs in each_output(bundle, batch):
            memory.check(f"depths of {image.width} x {image.height} pixels", 8 * image.width * image.height)
            depths = bicubic(outputs[PREDICTED_DEPTH], image.height, image.width)
            results.append({"predicted_depth": depths, "depth": shades(depths)})
        tell(first + len(batch), len(sources))
    return results if several(images) else results[0]


def shades(depths: np.ndarray) -> np.ndarray:
    """Depths (H,W) as bytes: 0 is the least, 255 the greatest; all are 0 where they are equal."""
    least, greatest = depths.min(), depths.max()
    if not greatest > least:
        return np.zeros(depths.shape, np.uint8)
    result: np.ndarray = ((depths - least) / (greatest - least) * 255).astype(np.uint8)
    return result


def bicubic(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Values (h,w) float32 interpolated to (height,width), without antialias, edges repeated."""
    down = _interpolated(values, height)  # (height, w)
    result: np.ndarray = np.ascontiguousarray(_interpolated(down.T, width).T)
    return result


def _interpolated(values: np.ndarray, size: int) -> np.ndarray:
    """Values (n,...) float32 at `size` places along the first axis (size,...)."""
    count = len(values)
    source = (np.arange(size, dtype=np.float32) + np.float32(0.5)) * np.float32(count / size)
    source -= np.float32(0.5)
    before = np.floor(source)
    beyond = (source - before).astype(np.float32)  # from 0 to below 1
    result = np.zeros((size, *values.shape[1:]), np.float32)
    for step, weight in enumerate(_cubic(beyond), -1):
        nearest = np.clip(before.astype(np.int64) + step, 0, count - 1)
        result += weight[:, None] * values[nearest]
    return result


def _cubic(beyond: np.ndarray) -> list[np.ndarray]:
    """Weights of the two values before and the two behind a place that is `beyond` the second (Keys 1981)."""

    def near(x: np.ndarray) -> np.ndarray:
        return ((A + 2) * x - (A + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:
        return ((A * x - 5 * A) * x + 8 * A) * x - 4 * A

    return [far(beyond + 1), near(beyond), near(1 - beyond), far(2 - beyond)]
