"""Masks of objects in images, prompted by points and boxes; P prompts, M masks of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import numpy as np

from txexport.contracts import Port, roles
from txexport.contracts.names import (
    CORNERS,
    HAS_MASKS,
    INPUT_BOXES,
    INPUT_LABELS,
    INPUT_MASKS,
    INPUT_POINTS,
    IOU_SCORES,
    NO_POINT,
    PIXEL_VALUES,
    PRED_MASKS,
)
from txexport.errors import InputError, counted, shown
from txexport.runtime import memory
from txexport.runtime.interpolation import bilinear
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.images import Prepared
from txexport.runtime.preprocessing.opened_images import Source, several
from txexport.runtime.session import finite
from txexport.runtime.tasks.image_tasks import as_sources
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress, counting

AT_ONCE = 64  # prompts that the decoder reads together
FIELDS = ("points", "labels", "box", "mask")
NO_BOX = np.zeros((0, 4), np.float32)
AGAIN = "its graphs are for other clients alone: export it again without --only hub"


class Prompt(TypedDict, total=False):
    """The prompt of one object, in pixels of the image: points (x, y), their labels, and a box.

    A label of 1 is for a point in the object, 0 for one outside of it; without labels, all are 1. A box is
    its left, upper, right and lower edge. A mask is the `logits` (h,w) of an earlier answer.
    """

    points: Sequence[Sequence[float]]
    labels: Sequence[int]
    box: Sequence[float]
    mask: np.ndarray


class Mask(TypedDict):
    """The pixels (H,W) of an object, and the model's estimate of how well they fit: of IoU, about 0 to 1.

    `logits` (h,w) float32 are what the model gives, `with_logits` alone.
    """

    score: float
    mask: np.ndarray
    logits: NotRequired[np.ndarray]


Prompts = Prompt | Sequence[Prompt]


@dataclass(frozen=True)
class Numbers:
    """A prompt in pixels of the model's input: points (N,2), their labels (N), a box (1,4) or none (0,4)."""

    points: np.ndarray
    labels: np.ndarray
    box: np.ndarray
    mask: np.ndarray | None = None  # (h,w)

    @property
    def with_corners(self) -> tuple[np.ndarray, np.ndarray]:
        """The points and labels with the corners of the box, or with a point that is none."""
        more, labels = self.box.reshape(-1, 2), [*CORNERS]
        if not len(more):
            more, labels = np.zeros((1, 2), np.float32), [NO_POINT]
        return np.concatenate([self.points, more]), np.concatenate([self.labels, np.array(labels)])


def masks(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    prompts: Prompts | Sequence[Prompts],
    *,
    several_masks: bool = True,
    with_logits: bool = False,
    batch_size: int = AT_ONCE,
    progress: Progress | None = None,
) -> list:
    """The masks of an object in an image for a prompt, the likeliest first: a list of `score` and `mask`.

    A prompt has `points` as [[x, y]], their `labels`, 1 in the object and 0 outside of it, and a `box` as
    [left, top, right, bottom], in pixels of the image; one of them is enough. For a list of prompts, one an
    object, there is a list of masks for each; for a list of images, with the prompts of each, a list for
    each. An image is encoded once, and so is the last one if it comes again. A single point may mean a part
    or the whole, so there are three masks; without `several_masks`, there is the one that the model has for
    clear prompts. Masks are where logits, interpolated to the image's size as it is after a rotation that its
    EXIF data ask for, exceed 0. At most `batch_size` prompts run together. `with_logits` adds the logits
    (h,w) as the model gives them; those of a mask may be the `mask` of a next prompt, which refines it.
    Raises InputError for an invalid image or prompt.
    """
    check_task(bundle, "masks")
    check_count("batch_size", batch_size)
    check_flag("several_masks", several_masks)
    check_flag("with_logits", with_logits)
    if not several_masks and _for_others(bundle):
        raise InputError(f"{bundle.folder} has no mask for clear prompts; {AGAIN}, or ask for several masks")
    many, sources, tell = several(images), as_sources(images), counting(progress)
    of_images: Sequence[Any] = prompts if many else [prompts]  # type: ignore[assignment]
    if not isinstance(of_images, Sequence) or len(of_images) != len(sources):
        raise InputError(
            f"prompts are {shown(prompts)}, expected those of each of {counted(len(sources), 'image')}"
        )
    results = []
    for done, (source, of_image) in enumerate(zip(sources, of_images, strict=True), 1):
        image = bundle.files.images.prepared(source)
        numbers = [_numbers(bundle, image, one) for one in _listed(of_image)]
        memory.check(
            f"masks of {image.width} x {image.height} pixels", 16 * len(numbers) * image.width * image.height
        )
        answers: list[list[Mask]] = [[]] * len(numbers)
        for group in _alike(numbers, batch_size):
            outputs = decoded(bundle, image, [numbers[number] for number in group])
            for row, number in enumerate(group):
                scores, logits = (outputs[name][0, row] for name in (IOU_SCORES, PRED_MASKS))
                answers[number] = _masks(image, scores, logits, several_masks, with_logits)
        results.append(answers[0] if isinstance(of_image, Mapping) else answers)
        tell(done, len(sources))
    return results if many else results[0]


def _listed(prompts: Any) -> Sequence[Any]:
    """One prompt or several as a list."""
    if isinstance(prompts, Mapping):
        return [prompts]
    if isinstance(prompts, str) or not isinstance(prompts, Sequence):
        raise InputError(f"a prompt is {shown(prompts)}, expected a dict with {', '.join(FIELDS)}, or a list")
    return prompts


def _numbers(bundle: LoadedBundle, image: Prepared, prompt: Any) -> Numbers:
    """The points of a prompt in pixels of the model's input, their labels, its box, and its mask."""
    if not isinstance(prompt, Mapping) or not prompt or not {*prompt} <= {*FIELDS}:
        raise InputError(f"a prompt is {shown(prompt)}, expected a dict with {', '.join(FIELDS)}")
    points = _array("points", prompt.get("points", []), 2)
    if len(points) == 0 and "box" not in prompt:
        raise InputError(f"a prompt is {shown(prompt)}, expected points or a box")
    labels = prompt.get("labels", [1] * len(points))
    if not isinstance(labels, Sequence) or isinstance(labels, str) or len(labels) != len(points):
        raise InputError(f"labels are {shown(labels)}, expected {len(points)}, one for each point")
    if any(type(label) is not int or label not in (0, 1) for label in labels):
        raise InputError(f"labels are {shown(labels)}, expected 1 in the object and 0 outside of it")
    box = NO_BOX if prompt.get("box") is None else _array("box", [prompt["box"]], 4)
    if (box[:, :2] > box[:, 2:]).any():
        raise InputError(f"box is {shown(prompt['box'])}, expected left, top, right and bottom")
    scales = np.array([image.columns / image.width, image.rows / image.height] * 2)
    placed, corners = points * scales[:2], box * scales
    mask = None if prompt.get("mask") is None else _mask_of(bundle, prompt["mask"])
    return Numbers(placed.astype(np.float32), np.array(labels, np.int64), corners.astype(np.float32), mask)


def _mask_of(bundle: LoadedBundle, values: Any) -> np.ndarray:
    """The logits (h,w) of a mask as a prompt."""
    port = bundle.sessions[roles.MASK_DECODER].inputs.get(INPUT_MASKS)
    if port is None:
        remedy = AGAIN if _for_others(bundle) else "export it again"
        raise InputError(f"{bundle.folder} takes no mask as a prompt; {remedy}")
    try:
        mask = np.array(values, np.float32)
    except (TypeError, ValueError, OverflowError):
        mask = np.zeros(0, np.float32)
    if list(mask.shape) != port.shape[2:] or not np.isfinite(mask).all():
        high, wide = port.shape[2:]
        raise InputError(
            f"mask is {shown(values)}, expected the logits ({high}, {wide}) of an earlier answer"
        )
    return mask


def _array(name: str, values: Any, count: int) -> np.ndarray:
    """Rows of `count` numbers each (N,count) float64."""
    try:
        result = np.array(values, np.float64).reshape(-1, count) if len(values) else np.zeros((0, count))
        valid = all(len(row) == count for row in values) and np.isfinite(result).all()
    except (TypeError, ValueError):
        valid = False
    if not valid or np.abs(result).max(initial=0) > 2**24:
        raise InputError(f"{name} are {shown(values)}, expected rows of {count} numbers of pixels")
    return result


def _alike(numbers: Sequence[Numbers], most: int) -> Iterator[list[int]]:
    """The places of prompts that have one number of points, and a box or none, which run together."""
    sizes: dict[tuple[int, int], list[int]] = {}
    for place, one in enumerate(numbers):
        sizes.setdefault((len(one.points), len(one.box)), []).append(place)
    for group in sizes.values():
        for first in range(0, len(group), most):
            yield group[first : first + most]


def decoded(bundle: LoadedBundle, image: Prepared, numbers: Sequence[Numbers]) -> Mapping[str, np.ndarray]:
    """iou_scores (1,P,M) and pred_masks (1,P,M,h,w) of prompts with one number of points and of boxes.

    Graphs for other clients lack the first mask, of which the score and the logits are 0 then.
    """
    encoded, decoder = _encoded(bundle, image), bundle.sessions[roles.MASK_DECODER]
    others, boxes = _for_others(bundle), {}
    pairs = [(one.points, one.labels) for one in numbers]
    if INPUT_BOXES in decoder.inputs:
        boxes = {INPUT_BOXES: np.concatenate([one.box for one in numbers])[None]}
    elif not others:
        pairs = [one.with_corners for one in numbers]
    elif len(numbers[0].box):
        raise InputError(f"{bundle.folder} takes no box; {AGAIN}, or give points alone")
    points, labels = (np.stack(part)[None] for part in zip(*pairs, strict=True))
    dense = _dense(decoder.inputs[INPUT_MASKS], numbers) if INPUT_MASKS in decoder.inputs else {}
    result = finite(decoder.run({**encoded, INPUT_POINTS: points, INPUT_LABELS: labels, **boxes, **dense}))
    if not others:
        return result
    first = {name: np.zeros_like(result[name][:, :, :1]) for name in (IOU_SCORES, PRED_MASKS)}
    every = {name: np.concatenate([one, result[name]], axis=2) for name, one in first.items()}
    return {**result, **every}


def _dense(port: Port, numbers: Sequence[Numbers]) -> dict[str, np.ndarray]:
    """The masks of prompts (1,P,h,w) and where there is one (1,P), or one that is none for all."""
    has_masks = np.array([[one.mask is not None for one in numbers]])
    if not has_masks.any():
        numbers, has_masks = numbers[:1], has_masks[:, :1]
    masks = np.zeros((1, len(numbers), *map(int, port.shape[2:])), np.float32)
    for place, one in enumerate(numbers):
        masks[0, place] = 0 if one.mask is None else one.mask
    return {INPUT_MASKS: masks, HAS_MASKS: has_masks.astype(np.int64)}


def _for_others(bundle: LoadedBundle) -> bool:
    """Tell whether the graphs are those of other clients."""
    return bundle.manifest.form.only == "hub"


def _encoded(bundle: LoadedBundle, image: Prepared) -> Mapping[str, np.ndarray]:
    """The places of an image; those of the last image are kept."""
    key = image.values.tobytes()
    last = bundle.last_image
    if last is None or last[0] != key:
        outputs = finite(bundle.sessions[roles.IMAGE_ENCODER].run({PIXEL_VALUES: image.values[None]}))
        last = bundle.last_image = (key, outputs)
    return last[1]


def _masks(
    image: Prepared, scores: np.ndarray, logits: np.ndarray, several_masks: bool, with_logits: bool
) -> list[Mask]:
    """The masks of a prompt by scores (M) and logits (M,h,w), of which the first is for clear prompts."""
    chosen = range(1, len(scores)) if several_masks else range(1)
    order = sorted(chosen, key=lambda number: -scores[number])
    result: list[Mask] = []
    for one in order:
        result.append({"score": float(scores[one]), "mask": enlarged(image, logits[one]) > 0})
        if with_logits:
            result[-1]["logits"] = logits[one].copy()
    return result


def enlarged(image: Prepared, logits: np.ndarray) -> np.ndarray:
    """Logits (h,w) interpolated to the pixels of an image (H,W).

    Where the processor pads, that is by way of the pixels of the model's input.
    """
    if not image.pads:
        return bilinear(logits, image.height, image.width)
    height, width = image.values.shape[1:]
    inner = bilinear(logits, height, width, image.rows, image.columns)
    return bilinear(inner, image.height, image.width)
