"""Cases of masks for prompts."""

from collections.abc import Callable

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import (
    CORNERS,
    INPUT_BOXES,
    INPUT_LABELS,
    INPUT_POINTS,
    IOU_SCORES,
    NO_POINT,
    PIXEL_VALUES,
    PRED_MASKS,
)
from txexport.parts.cases import PromptCase
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.runs import Outcome
from txexport.verification.references.originals import Arrays, Reference


def run_prompts(runner: GraphRunner, reference: Reference, case: PromptCase) -> list[Outcome]:
    """The places of images, and the masks and scores that the decoder gives for them and prompts.

    Other clients' graph takes points alone, and gives all masks but the first.
    """
    points = {INPUT_POINTS: case.input_points, INPUT_LABELS: case.input_labels}
    inputs = {PIXEL_VALUES: case.pixel_values} | points
    inputs |= {} if case.input_boxes is None else {INPUT_BOXES: case.input_boxes}
    expected = reference.encode(inputs)
    encoded = runner.run(roles.IMAGE_ENCODER, **{PIXEL_VALUES: case.pixel_values})
    outcomes = [
        Outcome(name, [(value, expected[name])], graph=runner.file(roles.IMAGE_ENCODER))
        for name, value in encoded.items()
    ]
    decoder = runner.manifest.graphs[roles.MASK_DECODER]
    masks = next(port.shape[2] for port in decoder.outputs if port.name == IOU_SCORES)
    all_masks = masks == expected[IOU_SCORES].shape[2]
    result = runner.run(roles.MASK_DECODER, **encoded, **(with_corners(case) if all_masks else points))
    first = 0 if all_masks else 1
    for name in (IOU_SCORES, PRED_MASKS):
        pair = result[name], expected[name][:, :, first:]
        outcomes.append(Outcome(name, [pair], graph=runner.file(roles.MASK_DECODER)))
    return outcomes


def run_client(
    forward: Callable[[Arrays], Arrays], runner: GraphRunner, reference: Reference, case: PromptCase
) -> list[Outcome]:
    """The scores and masks of a case without boxes, which another client gives for images and points."""
    inputs = {
        PIXEL_VALUES: case.pixel_values,
        INPUT_POINTS: case.input_points,
        INPUT_LABELS: case.input_labels,
    }
    result, expected = forward(inputs), reference.encode(inputs)
    return [Outcome(name, [(result[name], expected[name][:, :, 1:])]) for name in (IOU_SCORES, PRED_MASKS)]


def with_corners(case: PromptCase) -> Arrays:
    """The points of a case with the corners of its boxes, or without any with one that is none."""
    groups = case.input_labels.shape[:2]
    if case.input_boxes is None:
        more, labels = np.zeros((*groups, 1, 2), np.float32), [NO_POINT]
    else:
        more, labels = case.input_boxes.reshape(*groups, 2, 2), [*CORNERS]
    marks = np.broadcast_to(np.array(labels, np.int64), (*groups, len(labels)))
    return {
        INPUT_POINTS: np.concatenate([case.input_points, more], axis=2),
        INPUT_LABELS: np.concatenate([case.input_labels, marks], axis=2),
    }
