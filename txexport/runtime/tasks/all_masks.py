"""The masks of everything in an image, prompted by a grid of points; N masks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from txexport.contracts.names import IOU_SCORES, PRED_MASKS
from txexport.errors import InputError, shown
from txexport.runtime import memory
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.images import Prepared
from txexport.runtime.preprocessing.opened_images import Source, opened, several
from txexport.runtime.tasks.crops import Crop, crops
from txexport.runtime.tasks.image_tasks import as_sources
from txexport.runtime.tasks.masks import AT_ONCE, NO_BOX, Mask, Numbers, decoded, enlarged
from txexport.support.arguments import check_count
from txexport.support.progress import Progress, counting

SHIFT = 1.0  # of the logits at which a stable mask is the same
LAYERS = 5  # of crops, of which the last has 1,024


@dataclass(frozen=True)
class _Candidate:
    """A mask of a crop as bits, its score, and its outermost pixels in the image, from the left."""

    score: float
    bits: np.ndarray
    box: tuple[int, int, int, int]
    crop: Crop


def all_masks(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    points_per_side: int = 32,
    min_score: float = 0.88,
    min_stability: float = 0.95,
    overlap: float = 0.7,
    crop_layers: int = 0,
    crop_overlap: float = 512 / 1500,
    batch_size: int = AT_ONCE,
    progress: Progress | None = None,
) -> list[Mask] | list[list[Mask]]:
    """The masks of everything in an image, or in each of several, the likeliest first: `score` and `mask`.

    Each point of a grid of `points_per_side` squared prompts three masks. One stays if its score exceeds
    `min_score`, and the pixels whose logits exceed 1 are more than `min_stability` of those whose logits
    exceed -1. Of two whose boxes have an intersection over union above `overlap`, the likelier one stays
    (Kirillov et al. 2023, B). At most `batch_size` points run together.

    With `crop_layers`, small things are found too: in each layer, crops of the image are prompted like
    images, 4 in the first, 16 in the second and so on, and masks that reach a crop's edge are left out. Crops
    of the first layer overlap by `crop_overlap` of the image's shorter edge, those of later ones by less.
    Raises InputError for an invalid image or number.
    """
    check_task(bundle, "all_masks")
    check_count("batch_size", batch_size)
    check_count("points_per_side", points_per_side)
    if points_per_side > 1024:
        raise InputError(f"points_per_side is {points_per_side}, expected at most 1024")
    if type(crop_layers) is not int or not 0 <= crop_layers <= LAYERS:
        raise InputError(f"crop_layers is {shown(crop_layers)}, expected a whole number from 0 to {LAYERS}")
    least = {"min_score": min_score, "min_stability": min_stability}
    for name, share in (*least.items(), ("overlap", overlap), ("crop_overlap", crop_overlap)):
        number = isinstance(share, int | float | np.number) and not isinstance(share, bool)
        if not number or not 0 <= share <= 1:
            raise InputError(f"{name} is {shown(share)}, expected a number from 0 to 1")
    if crop_overlap == 1 and crop_layers:
        raise InputError("crop_overlap is 1, expected less: all crops would be the image")
    sources, results, tell = as_sources(images), [], counting(progress)
    for done, source in enumerate(sources, 1):
        image = opened(source, bundle.files.images.on_white)
        size = image.height, image.width
        memory.check(f"masks of {image.width} x {image.height} pixels", 64 * image.width * image.height)
        candidates: list[_Candidate] = []
        for crop in crops(*size, crop_layers, crop_overlap):
            prepared = bundle.files.images.prepared(image.crop(crop.edges) if crop.layer else image)
            points = _grid(prepared, points_per_side)
            for first in range(0, len(points), batch_size):
                outputs = decoded(bundle, prepared, points[first : first + batch_size])
                scores, logits = outputs[IOU_SCORES][0, :, 1:], outputs[PRED_MASKS][0, :, 1:]
                stable = _stable(prepared, crop, scores, logits, (min_score, min_stability))
                candidates += [one for one in stable if not crop.cuts(one.box, *size)]
        chosen = [candidates[number] for number in _distinct(candidates, overlap)]
        results.append([_mask(candidate, size) for candidate in chosen])
        tell(done, len(sources))
    return results if several(images) else results[0]


def _grid(image: Prepared, side: int) -> list[Numbers]:
    """The prompts of one point each, row by row, in pixels of the model's input."""
    shares = np.linspace(1 / (2 * side), 1 - 1 / (2 * side), side)
    x, y = np.meshgrid(shares * image.columns, shares * image.rows)
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    return [Numbers(np.array([point], np.float32), np.array([1]), NO_BOX) for point in points]


def _stable(
    image: Prepared, crop: Crop, scores: np.ndarray, logits: np.ndarray, least: tuple[float, float]
) -> Iterator[_Candidate]:
    """The masks with scores (P,M) and logits (P,M,h,w) above the least score and stability."""
    min_score, min_stability = least
    for prompt, number in np.argwhere(scores > min_score):
        pixels = enlarged(image, logits[prompt, number])
        inner, outer = np.count_nonzero(pixels > SHIFT), np.count_nonzero(pixels > -SHIFT)
        if inner > min_stability * outer:
            mask = pixels > 0
            left, top, right, bottom = _box(mask)
            box = left + crop.left, top + crop.top, right + crop.left, bottom + crop.top
            yield _Candidate(float(scores[prompt, number]), np.packbits(mask), box, crop)


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    """The outermost pixels of a mask: left, top, right, bottom."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1])


def _distinct(candidates: Sequence[_Candidate], overlap: float) -> list[int]:
    """The numbers of the likeliest candidates, whose boxes overlap with no likelier one's."""
    boxes = np.array([one.box for one in candidates], np.float32).reshape(-1, 4)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order = np.argsort([-one.score for one in candidates], kind="stable")
    chosen: list[int] = []
    while order.size:
        first, rest = order[0], order[1:]
        chosen.append(int(first))
        low = np.maximum(boxes[rest, :2], boxes[first, :2])
        high = np.minimum(boxes[rest, 2:], boxes[first, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        with np.errstate(invalid="ignore"):  # of two boxes without an area
            ratios = shared / (areas[rest] + areas[first] - shared)
        order = rest[~(ratios > overlap)]
    return chosen


def _mask(candidate: _Candidate, size: tuple[int, int]) -> Mask:
    """The mask of a candidate in an image of that height and width."""
    left, top, right, bottom = candidate.crop.edges
    height, width = bottom - top, right - left
    mask = np.zeros(size, bool)
    inner = np.unpackbits(candidate.bits, count=height * width).reshape(height, width)
    mask[top:bottom, left:right] = inner
    return {"score": candidate.score, "mask": mask}
