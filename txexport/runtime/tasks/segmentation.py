"""The label of every pixel of images; C labels, H is a height, W a width."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import LOGITS
from txexport.runtime import memory
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.images import Source, several
from txexport.runtime.tasks.image_tasks import BATCH_IMAGES, as_sources, each_output
from txexport.runtime.tasks.interpolation import between
from txexport.runtime.tasks.labels import names
from txexport.support.arguments import check_count
from txexport.support.progress import Progress, counting

BAND = 2**22  # scores that are interpolated at once


class Segment(TypedDict):
    """A part of an image: its label, a score or None, and the pixels (H,W) that are its own."""

    label: str
    score: float | None
    mask: np.ndarray


def segment(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    batch_size: int = BATCH_IMAGES,
    progress: Progress | None = None,
) -> list[Segment] | list[list[Segment]]:
    """The parts of an image, or of each of several: each label that a pixel has, in the model's order.

    Every pixel belongs to one part. Its label is the likeliest after the scores are interpolated to the
    image's own size, as it is after a rotation that its EXIF data ask for; `score` is None, since such models
    score pixels, not parts. `run_lengths` of txexport.runtime.run_lengths makes a
    mask small. Only images of equal size after
    resizing are read together. Raises InputError for an invalid image.
    """
    check_task(bundle, "segment")
    check_count("batch_size", batch_size)
    sources, tell = as_sources(images), counting(progress)
    labels = names(bundle.files.config, _count(bundle))
    results: list[list[Segment]] = []
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        for image, outputs in each_output(bundle, batch):
            memory.check(f"masks of {image.width} x {image.height} pixels", 8 * image.width * image.height)
            best = likeliest(outputs[LOGITS], image.height, image.width)
            results.append(
                [
                    {"label": labels[number], "score": None, "mask": best == number}
                    for number in np.unique(best).tolist()
                ]
            )
        tell(first + len(batch), len(sources))
    return results if several(images) else results[0]


def _count(bundle: LoadedBundle) -> int:
    """The number of labels of a bundle's model."""
    count = bundle.sessions[roles.MODEL].outputs[LOGITS].shape[1]
    assert isinstance(count, int)  # as the head's ports have it
    return count


def likeliest(logits: np.ndarray, height: int, width: int) -> np.ndarray:
    """The number of the best label (height,width) of every pixel, by logits (C,h,w) float32.

    Logits are interpolated between the centres of pixels, without antialias; of equal ones the first label's
    counts.
    """
    count = logits.shape[0]
    above, below, down = between(logits.shape[1], height)
    left, right, across = between(logits.shape[2], width)
    best = np.empty((height, width), np.int64)
    rows = max(1, BAND // (count * width))
    for first in range(0, height, rows):
        band = slice(first, first + rows)
        upper = logits[:, above[band]]  # (C, rows, w)
        wide = upper + (logits[:, below[band]] - upper) * down[band, None]
        near = wide[:, :, left]  # (C, rows, width)
        best[band] = (near + (wide[:, :, right] - near) * across).argmax(axis=0)
    return best
