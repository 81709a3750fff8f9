"""Points of bodies in images; K points, h rows and w columns of a heat map."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import HEATMAPS, PIXEL_VALUES
from txexport.errors import InputError, UnsupportedError, counted, shown
from txexport.runtime import memory
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.boxes import UNIT, centre_and_scale
from txexport.runtime.preprocessing.opened_images import Source, opened, several
from txexport.runtime.session import finite
from txexport.runtime.tasks.detection import Box
from txexport.runtime.tasks.image_tasks import BATCH_IMAGES, as_sources
from txexport.runtime.tasks.keypoints import refined
from txexport.runtime.tasks.labels import names
from txexport.support.arguments import check_count
from txexport.support.progress import Progress, counting

EDGES = ("xmin", "ymin", "xmax", "ymax")


class Keypoint(TypedDict):
    """A point of a body: its label, the height of its heat map there, and its place in pixels."""

    label: str
    score: float
    x: float
    y: float


class Pose(TypedDict):
    """The points of the body in a box, in the model's order."""

    box: Box
    keypoints: list[Keypoint]


Boxes = Sequence[Sequence[float] | Mapping[str, float]]
Bounds = tuple[float, float, float, float]


def pose(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    boxes: Boxes | Sequence[Boxes | None] | None = None,
    *,
    threshold: float | None = None,
    batch_size: int = BATCH_IMAGES,
    progress: Progress | None = None,
) -> list[Pose] | list[list[Pose]]:
    """The pose of the body in each of the `boxes` of an image: its points, as `box` and `keypoints`.

    A box is [left, top, right, bottom] in pixels, or a `box` of what `detect` returns; without boxes, the
    whole image is one. For a list of images, `boxes` has those of each. A point's `score` is the height of
    its heat map, about 1 where it is sure, and points up to `threshold` are left out; a point whose score is
    not above 0 was not found, and its place means nothing. Pixels are those of the image after a rotation
    that its EXIF data ask for. At most `batch_size` boxes are read together. Raises InputError for an invalid
    image, box or threshold.
    """
    check_task(bundle, "pose")
    check_count("batch_size", batch_size)
    _check_threshold(threshold)
    many, sources, tell = several(images), as_sources(images), counting(progress)
    of_images: Any = (boxes if many else [boxes]) if boxes is not None else [None] * len(sources)
    if not isinstance(of_images, Sequence) or isinstance(of_images, str) or len(of_images) != len(sources):
        raise InputError(
            f"boxes are {shown(boxes)}, expected those of each of {counted(len(sources), 'image')}"
        )
    size = bundle.files.images.boxed
    if size is None:
        raise UnsupportedError("the image processor cuts out no boxes; expected VitPoseImageProcessor")
    count = bundle.sessions[roles.MODEL].outputs[HEATMAPS].shape[1]
    assert isinstance(count, int)  # as the head's ports have it
    labels = names(bundle.files.config, count)
    results: list[list[Pose]] = []
    for done, (source, of_image) in enumerate(zip(sources, of_images, strict=True), 1):
        image = opened(source, bundle.files.images.on_white)
        bounds = [(0.0, 0.0, float(image.width), float(image.height))]
        if of_image is not None:
            bounds = [_bounds(box) for box in _listed(of_image)]
        poses: list[Pose] = []
        for first in range(0, len(bounds), batch_size):
            part = bounds[first : first + batch_size]
            memory.check(f"{counted(len(part), 'part')} of an image", 32 * len(part) * size[0] * size[1])
            pixels = bundle.files.images.boxed_values(image, [_sized(one) for one in part])
            outputs = finite(bundle.sessions[roles.MODEL].run({PIXEL_VALUES: pixels}))
            for one, heat in zip(part, outputs[HEATMAPS], strict=True):
                poses.append(_pose(one, heat, labels, size, threshold))
        results.append(poses)
        tell(done, len(sources))
    return results if many else results[0]


def _check_threshold(threshold: object) -> None:
    number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
    if threshold is not None and not (number and np.isfinite(threshold)):  # type: ignore[call-overload]
        raise InputError(f"threshold is {shown(threshold)}, expected a number or None")


def _listed(boxes: Any) -> Sequence[Any]:
    """The boxes of an image. Raises InputError for what is no list of them."""
    if isinstance(boxes, np.ndarray):
        boxes = boxes.tolist()
    if not isinstance(boxes, Sequence) or isinstance(boxes, str) or not boxes:
        raise InputError(f"boxes are {shown(boxes)}, expected one or more [left, top, right, bottom]")
    return boxes


def _bounds(box: Any) -> Bounds:
    """Left, top, right and bottom of a box. Raises InputError for what is none."""
    values: Any = [box.get(edge) for edge in EDGES] if isinstance(box, Mapping) else box
    try:
        left, top, right, bottom = (float(value) for value in values)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"a box is {shown(box)}, expected [left, top, right, bottom]") from None
    if not (np.isfinite([left, top, right, bottom]).all() and left < right and top < bottom):
        raise InputError(f"a box is {shown(box)}, expected left below right and top below bottom, in pixels")
    if max(map(abs, (left, top, right, bottom))) > 2**24:
        raise InputError(f"a box is {shown(box)}, expected at most {2**24} pixels")
    return left, top, right, bottom


def _sized(bounds: Bounds) -> Bounds:
    """Left, top, width and height."""
    left, top, right, bottom = bounds
    return left, top, right - left, bottom - top


def _pose(
    bounds: Bounds,
    heat: np.ndarray,
    labels: Sequence[str],
    size: tuple[int, int],
    threshold: float | None,
) -> Pose:
    """The pose in a box by the heat maps (K,h,w) of its part of the image at that size."""
    height, width = size
    centre, scale = centre_and_scale(_sized(bounds), width, height)
    points, scores = refined(heat)  # (K, 2), (K)
    extent = scale * UNIT
    steps = [extent[axis] / (heat.shape[2 - axis] - 1.0) for axis in (0, 1)]
    placed = [points[:, axis] * steps[axis] + centre[axis] - extent[axis] * 0.5 for axis in (0, 1)]
    keypoints: list[Keypoint] = [
        {"label": label, "score": score, "x": x, "y": y}
        for label, score, x, y in zip(labels, scores.tolist(), *(one.tolist() for one in placed), strict=True)
        if threshold is None or score > threshold
    ]
    xmin, ymin, xmax, ymax = bounds
    return {"box": {"xmin": xmin, "ymin": ymin, "xmax": xmax, "ymax": ymax}, "keypoints": keypoints}
