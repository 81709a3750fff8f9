"""Objects in images; B images of one size, Q queries, C labels."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import LOGITS, PRED_BOXES
from txexport.errors import InputError, shown
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.image_defaults import MOST_PAIRS
from txexport.runtime.preprocessing.images import Prepared
from txexport.runtime.preprocessing.opened_images import Source, several
from txexport.runtime.tasks.image_tasks import BATCH_IMAGES, as_sources, each_output
from txexport.runtime.tasks.labels import names, sigmoid, softmax
from txexport.support.arguments import check_count
from txexport.support.progress import Progress, counting


class Box(TypedDict):
    """The corners of a box, in pixels of the image: from its left and its upper edge."""

    xmin: float
    ymin: float
    xmax: float
    ymax: float


class Detection(TypedDict):
    """An object: its label, the label's probability, and its box."""

    label: str
    score: float
    box: Box


def detect(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    threshold: float = 0.5,
    batch_size: int = BATCH_IMAGES,
    progress: Progress | None = None,
) -> list[Detection] | list[list[Detection]]:
    """The objects in an image, or in each of several: those likelier than `threshold`, likeliest first.

    Where labels have probabilities of their own, as in RT-DETR, an object may be there once for each of two.

    Boxes are in pixels of the image, as it is after a rotation that its EXIF data ask for; they may reach
    beyond its edges. Only images of equal size after resizing are read together: padding would change what
    the model finds. Raises InputError for an invalid image or threshold.
    """
    check_task(bundle, "detect")
    check_count("batch_size", batch_size)
    check_threshold(threshold)
    sources, tell = as_sources(images), counting(progress)
    apart = bundle.stage(roles.MODEL).facts.sigmoid_scores
    width = bundle.sessions[roles.MODEL].width(LOGITS)
    labels = names(bundle.files.config, width if apart else width - 1)
    results: list[list[Detection]] = []
    most = MOST_PAIRS.get(bundle.files.images.kind)
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        for image, outputs in each_output(bundle, batch):
            best = _best_pairs(outputs[LOGITS], most) if apart else _best_labels(outputs[LOGITS])
            results.append(_objects(image, outputs[PRED_BOXES], best, labels, threshold))
        tell(first + len(batch), len(sources))
    return results if several(images) else results[0]


def check_threshold(threshold: object, name: str = "threshold") -> None:
    """Raise InputError for what is no probability below 1; the message begins with the argument's `name`."""
    number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
    if not number or not 0 <= threshold < 1:  # type: ignore[operator]
        raise InputError(f"{name} is {shown(threshold)}, expected a number from 0 to below 1")


Best = tuple[np.ndarray, np.ndarray, np.ndarray]  # queries (N), their labels (N) and scores (N), best first


def _best_labels(logits: np.ndarray) -> Best:
    """The likeliest label of each query, by logits (Q,C + 1), the last of no object."""
    chances = softmax(logits)[:, :-1]  # (Q, C)
    best, scores = chances.argmax(axis=1), chances.max(axis=1)  # (Q), (Q)
    order = np.argsort(-scores, kind="stable")
    return order, best[order], scores[order]


def _best_pairs(logits: np.ndarray, most: int | None) -> Best:
    """The likeliest pairs of a query and a label, by logits (Q,C): a query may have several labels.

    There are `most` of them, or as many as queries.
    """
    scores = sigmoid(logits).ravel()  # (Q * C)
    order = np.argsort(-scores, kind="stable")[: most or len(logits)]
    return order // logits.shape[1], order % logits.shape[1], scores[order]


def _objects(
    image: Prepared, boxes: np.ndarray, best: Best, labels: Sequence[str], threshold: float
) -> list[Detection]:
    """The objects of an image likelier than `threshold`, of boxes (Q,4)."""
    corners = corners_of(boxes, image.height, image.width)  # (Q, 4)
    return [
        {"label": labels[label], "score": float(score), "box": box_of(corners[query])}
        for query, label, score in zip(*best, strict=True)
        if score > threshold
    ]


def corners_of(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Corners (Q,4) in pixels, left, top, right and bottom, of boxes (Q,4): centre, width and height."""
    centre, half = boxes[:, :2], boxes[:, 2:] * np.float32(0.5)
    size = np.array([width, height, width, height], np.float32)
    corners: np.ndarray = np.concatenate([centre - half, centre + half], axis=1) * size
    return corners


def box_of(corners: np.ndarray) -> Box:
    """A box of its corners (4)."""
    left, top, right, bottom = corners.tolist()
    return {"xmin": left, "ymin": top, "xmax": right, "ymax": bottom}
