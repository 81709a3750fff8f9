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
    OBJECT_SCORES,
    PIXEL_VALUES,
    PRED_MASKS,
)
from txexport.parts.cases import PromptCase
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.runs import Outcome
from txexport.verification.references.originals import Arrays, Reference


def run_prompts(runner: GraphRunner, reference: Reference, case: PromptCase) -> list[Outcome]:
    """The places of images, and the masks and scores that the decoder gives for them and prompts.

    Other clients' graph gives all masks but the first, and where it reads no boxes, it takes points alone.
    """
    points = {INPUT_POINTS: case.input_points, INPUT_LABELS: case.input_labels}
    boxes = {} if case.input_boxes is None else {INPUT_BOXES: case.input_boxes}
    inputs = {PIXEL_VALUES: case.pixel_values} | points | boxes
    expected = reference.encode(inputs)
    encoded = runner.run(roles.IMAGE_ENCODER, **{PIXEL_VALUES: case.pixel_values})
    outcomes = [
        Outcome(name, [(value, expected[name])], graph=runner.file(roles.IMAGE_ENCODER))
        for name, value in encoded.items()
    ]
    decoder = runner.manifest.graphs[roles.MASK_DECODER]
    masks = next(port.shape[2] for port in decoder.outputs if port.name == IOU_SCORES)
    all_masks = masks == expected[IOU_SCORES].shape[2]
    if INPUT_BOXES in [port.name for port in decoder.inputs]:
        prompts = points | {INPUT_BOXES: np.zeros((len(case.pixel_values), 0, 4), np.float32)} | boxes
    else:
        prompts = with_corners(case) if all_masks else points
    result = runner.run(roles.MASK_DECODER, **encoded, **prompts)
    first = 0 if all_masks else 1
    for name, value in result.items():
        pair = value, expected[name] if name == OBJECT_SCORES else expected[name][:, :, first:]
        outcomes.append(Outcome(name, [pair], graph=runner.file(roles.MASK_DECODER)))
    return outcomes


def run_client(
    forward: Callable[[Arrays], Arrays], runner: GraphRunner, reference: Reference, case: PromptCase
) -> list[Outcome]:
    """The scores and masks that another client gives for images, and points and boxes if there are any."""
    inputs = {
        PIXEL_VALUES: case.pixel_values,
        INPUT_POINTS: case.input_points,
        INPUT_LABELS: case.input_labels,
    }
    inputs |= {} if case.input_boxes is None else {INPUT_BOXES: case.input_boxes}
    expected = reference.encode(inputs)
    result = forward({name: value for name, value in inputs.items() if value.size})
    outcomes = [
        Outcome(name, [(result[name], expected[name][:, :, 1:])]) for name in (IOU_SCORES, PRED_MASKS)
    ]
    if OBJECT_SCORES in expected:
        outcomes.append(Outcome(OBJECT_SCORES, [(result[OBJECT_SCORES], expected[OBJECT_SCORES])]))
    return outcomes


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
