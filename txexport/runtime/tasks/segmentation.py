"""The parts of images and their labels; C labels, H is a height, W a width."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import (
    CLASS_QUERIES_LOGITS,
    IMAGE_EMBEDS,
    LOGITS,
    MASKS_QUERIES_LOGITS,
    PRED_MASKS,
)
from txexport.errors import InputError, shown
from txexport.runtime import memory
from txexport.runtime.interpolation import between, bilinear
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.image_defaults import MASK_SIZES
from txexport.runtime.preprocessing.images import Prepared
from txexport.runtime.preprocessing.opened_images import Source, several
from txexport.runtime.tasks.described_segments import DescribedParts, reads_texts
from txexport.runtime.tasks.detection import check_threshold
from txexport.runtime.tasks.image_tasks import BATCH_IMAGES, as_sources, each_output
from txexport.runtime.tasks.labels import names
from txexport.runtime.tasks.query_segments import (
    QuerySegment,
    Rules,
    instances,
    label_scores,
    objects,
    panoptic,
)
from txexport.support.arguments import check_count
from txexport.support.progress import Progress, counting

BAND = 2**22  # scores that are interpolated at once
KINDS = ("panoptic", "instance", "semantic")


class Segment(TypedDict):
    """A part of an image: its label, a score or None, and the pixels (H,W) that are its own."""

    label: str
    score: float | None
    mask: np.ndarray


Part = tuple[int, float | None, np.ndarray]  # the number of a label, a score, and pixels (H,W)


def segment(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    texts: Sequence[str] | None = None,
    kind: str | None = None,
    threshold: float = 0.9,
    mask_threshold: float = 0.5,
    overlap_mask_area_threshold: float = 0.5,
    truncate: bool = False,
    batch_size: int = BATCH_IMAGES,
    progress: Progress | None = None,
) -> list[Segment] | list[list[Segment]]:
    """The parts of an image, or of each of several.

    Of `kind` "semantic", the one of a model that scores labels of pixels: each label that a pixel has, in the
    model's order, with None for a score. Every pixel belongs to one part. Its label is the likeliest after
    the scores are interpolated to the image's own size, as it is after a rotation that its EXIF data ask for.

    A model of masks, as MaskFormer or DETR, also has the kinds "panoptic", its default, and "instance", whose
    parts have scores. A panoptic part has a score above `threshold`. A pixel belongs to the part whose mask
    times its score is the greatest; a part is left out if others leave it less than the share
    `overlap_mask_area_threshold` of its pixels with `mask_threshold`. MaskFormer's instances have a score
    from `threshold` on, and a later one covers the pixels of those before it; DETR's are its panoptic parts.
    RF-DETR has the kind "instance" alone: an instance has a score above `threshold`, and the pixels whose
    logit in its mask is above `mask_threshold`, without those of likelier ones. Pixels may then belong to no
    part.

    CLIPSeg segments by `texts`: each has a part, in their order, whose pixels have a probability above
    `mask_threshold`, after their logits are interpolated to the image's own size. Pixels may belong to
    several parts, and a part may have none. A score is the highest probability of a pixel.

    `run_lengths` of txexport.runtime.run_lengths makes a mask small. Only images of equal size after
    resizing are read together. Raises InputError for an invalid image, for a kind that the model lacks, and
    for texts that it does not read, or lacks.
    """
    check_task(bundle, "segment")
    check_count("batch_size", batch_size)
    check_threshold(threshold)
    check_threshold(mask_threshold, "mask_threshold")
    check_threshold(overlap_mask_area_threshold, "overlap_mask_area_threshold")
    described = _described(bundle, kind, texts, truncate)
    kind = KINDS[2] if described is not None else _kind(bundle, kind)
    rules = Rules(threshold, mask_threshold, overlap_mask_area_threshold)
    sources, tell = as_sources(images), counting(progress)
    labels = names(bundle.files.config, _count(bundle)) if described is None else described.labels
    role = roles.MODEL if described is None else roles.VISION
    results: list[list[Segment]] = []
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        for image, outputs in each_output(bundle, batch, role):
            memory.check(f"masks of {image.width} x {image.height} pixels", 8 * image.width * image.height)
            if described is not None:
                parts = described.parts(image, outputs[IMAGE_EMBEDS], mask_threshold)
            elif _scored_apart(bundle):
                parts = _of_segments(
                    objects(outputs[LOGITS], outputs[PRED_MASKS], image.height, image.width, rules)
                )
            else:
                parts = _parts(image, outputs, kind, rules, MASK_SIZES.get(bundle.files.images.kind))
            results.append([{"label": labels[at], "score": score, "mask": mask} for at, score, mask in parts])
        tell(first + len(batch), len(sources))
    return results if several(images) else results[0]


def _described(
    bundle: LoadedBundle, kind: object, texts: Sequence[str] | None, truncate: bool
) -> DescribedParts | None:
    """The parts that `texts` describe; None for a model that reads none. Raises InputError as `segment`."""
    if not reads_texts(bundle):
        if texts is not None:
            raise InputError("this model has labels of its own, and reads no texts; leave texts out")
        return None
    if kind is not None:
        raise InputError(f"kind is {shown(kind)}, and this model segments by texts; leave it out")
    return DescribedParts(bundle, texts, truncate)


def _parts(
    image: Prepared,
    outputs: Mapping[str, np.ndarray],
    kind: str,
    rules: Rules,
    mask_size: tuple[int, int] | None,
) -> list[Part]:
    """The number of the label, the score and the pixels (H,W) of each part of an image.

    Logits of masks are interpolated to a `mask_size` first, if there is one.
    """
    queries = _queries(outputs)
    if queries is not None and mask_size is not None:
        queries = queries[0], bilinear(queries[1], *mask_size)
    if kind == "semantic":
        best = likeliest(label_scores(*queries) if queries else outputs[LOGITS], image.height, image.width)
        return [(number, None, best == number) for number in np.unique(best).tolist()]
    assert queries is not None  # as its kinds say
    # The rules of DETR's instances are those of its panoptic parts.
    chosen = instances if kind == "instance" and CLASS_QUERIES_LOGITS in outputs else panoptic
    return _of_segments(chosen(*queries, image.height, image.width, rules))


def _of_segments(segments: Sequence[QuerySegment]) -> list[Part]:
    """Segments as parts."""
    return [(one.label, one.score, one.mask) for one in segments]


def _scored_apart(bundle: LoadedBundle) -> bool:
    """Tell whether each pair of a query and a label has a chance of its own, as RF-DETR's have."""
    return bundle.stage(roles.MODEL).facts.sigmoid_scores


def _queries(outputs: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """The outputs with labels and masks of queries; None of a model that scores labels of pixels."""
    if CLASS_QUERIES_LOGITS in outputs:
        return outputs[CLASS_QUERIES_LOGITS], outputs[MASKS_QUERIES_LOGITS]
    return (outputs[LOGITS], outputs[PRED_MASKS]) if PRED_MASKS in outputs else None


def _kind(bundle: LoadedBundle, kind: object) -> str:
    """The kind that was asked for, or the model's first one. Raises InputError for one that it lacks."""
    kinds = KINDS if _queries(bundle.sessions[roles.MODEL].outputs) else KINDS[2:]
    kinds = KINDS[1:2] if _scored_apart(bundle) else kinds
    if kind is None:
        return kinds[0]
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"kind is {shown(kind)}, and this model segments by {', '.join(kinds)}")
    return kind


def _count(bundle: LoadedBundle) -> int:
    """The number of labels of a bundle's model, without "no object"."""
    outputs = bundle.sessions[roles.MODEL].outputs
    queries = _queries(outputs)
    count = outputs[LOGITS].shape[1] if queries is None else queries[0].shape[2]
    assert isinstance(count, int)  # as the head's ports have it
    return count if queries is None or _scored_apart(bundle) else count - 1


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
