"""Segments of an image from queries, each with a label and a mask; Q queries, C labels, H, W the image's.

The rules are those of transformers' post_process_panoptic_segmentation, post_process_instance_segmentation
and post_process_semantic_segmentation (Cheng et al. 2021, 3.5).
"""

from dataclasses import dataclass

import numpy as np

from txexport.errors import counted
from txexport.runtime import memory
from txexport.runtime.interpolation import bilinear
from txexport.runtime.tasks.labels import sigmoid, softmax

FAINT = np.float32(1e-6)  # what an area of 0 is divided by


@dataclass(frozen=True)
class Rules:
    """The least score of a segment, that of its pixels, and the least share of a mask that is its own."""

    threshold: float
    mask_threshold: float
    overlap_mask_area_threshold: float


@dataclass(frozen=True)
class QuerySegment:
    """A segment: the number of its label, its score, and its pixels (H,W)."""

    label: int
    score: float
    mask: np.ndarray


def panoptic(
    classes: np.ndarray, masks: np.ndarray, height: int, width: int, rules: Rules
) -> list[QuerySegment]:
    """Segments that share no pixel, in the order of queries.

    Of logits (Q,C + 1), the last of no object, and of masks (Q,h,w). Each pixel is that of the query whose
    mask, times its score, is the greatest there.
    """
    chances = softmax(classes)  # (Q, C + 1)
    labels, scores = chances.argmax(axis=1), chances.max(axis=1)  # (Q), (Q)
    chosen = np.flatnonzero((labels < classes.shape[1] - 1) & (scores > np.float32(rules.threshold)))
    if not len(chosen):
        return []
    memory.check(
        f"{counted(len(chosen), 'mask')} of {width} x {height} pixels", 12 * len(chosen) * height * width
    )
    shares = bilinear(sigmoid(masks[chosen]).astype(np.float32), height, width)
    shares *= scores[chosen, None, None].astype(np.float32)
    best, result = shares.argmax(axis=0), []  # (H, W)
    for number, query in enumerate(chosen.tolist()):
        mask = best == number
        area, full = int(mask.sum()), int((shares[number] >= np.float32(rules.mask_threshold)).sum())
        if area and full and np.float32(area) / np.float32(full) > rules.overlap_mask_area_threshold:
            result.append(QuerySegment(int(labels[query]), float(scores[query]), mask))
    return result


def instances(
    classes: np.ndarray, masks: np.ndarray, height: int, width: int, rules: Rules
) -> list[QuerySegment]:
    """The Q likeliest pairs of a query and a label, likeliest first; a later one covers those before it.

    Of logits (Q,C + 1), the last of no object, and of masks (Q,h,w). A score is that of the label times the
    mean of the mask's pixels.
    """
    chances = softmax(classes)[:, :-1]  # (Q, C)
    order = np.argsort(-chances, axis=None, kind="stable")[: len(chances)]
    queries, labels = np.unravel_index(order, chances.shape)
    inside = masks > 0  # (Q, h, w)
    rows, columns = nearest(masks.shape[1], height), nearest(masks.shape[2], width)
    result: list[tuple[int, float]] = []
    owner = np.full((height, width), -1, np.int32)
    for query, label in zip(queries.tolist(), labels.tolist(), strict=True):
        area = inside[query]
        pixels = sigmoid(masks[query][area]).sum() / (np.float32(area.sum()) + FAINT)
        score, mask = float(chances[query, label] * pixels), area[rows][:, columns]
        if mask.any() and score >= rules.threshold:
            owner[mask] = len(result)
            result.append((label, score))
    return [QuerySegment(label, score, owner == number) for number, (label, score) in enumerate(result)]


def objects(
    classes: np.ndarray, masks: np.ndarray, height: int, width: int, rules: Rules
) -> list[QuerySegment]:
    """The Q likeliest pairs of a query and a label, likeliest first, without the pixels of those before it.

    Of logits (Q,C), each label with a chance of its own, and of masks (Q,h,w), whose pixels are those with a
    logit, not a chance, above `mask_threshold` (Robinson et al. 2025). A pair without pixels of its own is
    left out; scores have six decimals.
    """
    chances = sigmoid(classes).ravel()  # (Q * C)
    order = np.argsort(-chances, kind="stable")[: len(classes)]
    result, free = [], np.ones((height, width), bool)
    for pair in order[chances[order] > np.float32(rules.threshold)].tolist():
        query, label = divmod(pair, classes.shape[1])
        mask = (bilinear(masks[query], height, width) > rules.mask_threshold) & free
        if mask.any():
            free &= ~mask
            result.append(QuerySegment(label, round(float(chances[pair]), 6), mask))
    return result


def label_scores(classes: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """The score (C,h,w) of each label at each place, by logits (Q,C + 1) and masks (Q,h,w)."""
    chances = softmax(classes)[:, :-1].astype(np.float32)
    scores: np.ndarray = np.tensordot(chances.T, sigmoid(masks).astype(np.float32), axes=1)
    return scores


def nearest(count: int, size: int) -> np.ndarray:
    """For each of `size` places the one of `count` values that it is nearest to, as PyTorch has it."""
    source = np.arange(size, dtype=np.float32) * np.float32(count / size)
    return np.minimum(source.astype(np.int64), count - 1)
