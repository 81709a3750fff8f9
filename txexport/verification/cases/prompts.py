"""Cases of masks for prompts."""

from collections.abc import Callable

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
    OBJECT_SCORES,
    PIXEL_VALUES,
    PRED_MASKS,
)
from txexport.parts.cases import PromptCase
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.runs import Outcome
from txexport.verification.references.reference import Arrays, Reference


def run_prompts(runner: GraphRunner, reference: Reference, case: PromptCase) -> list[Outcome]:
    """The places of images, and the masks and scores that the decoder gives for them and prompts.

    Other clients' graph gives all masks but the first, and where it reads no boxes, it takes points alone.
    """
    points = {INPUT_POINTS: case.input_points, INPUT_LABELS: case.input_labels}
    boxes = {} if case.input_boxes is None else {INPUT_BOXES: case.input_boxes}
    masks = {} if case.input_masks is None else {INPUT_MASKS: case.input_masks}
    inputs = {PIXEL_VALUES: case.pixel_values} | points | boxes | masks
    expected = reference.encode(inputs)
    encoded = runner.run(roles.IMAGE_ENCODER, **{PIXEL_VALUES: case.pixel_values})
    outcomes = [
        Outcome(name, [(value, expected[name])], graph=runner.file(roles.IMAGE_ENCODER))
        for name, value in encoded.items()
    ]
    decoder = runner.manifest.graphs[roles.MASK_DECODER]
    count = next(port.shape[2] for port in decoder.outputs if port.name == IOU_SCORES)
    all_masks = count == expected[IOU_SCORES].shape[2]
    ports, rows = {port.name: port for port in decoder.inputs}, len(case.pixel_values)
    if INPUT_BOXES in ports:
        prompts = points | {INPUT_BOXES: np.zeros((rows, 0, 4), np.float32)} | boxes
    else:
        prompts = with_corners(case) if all_masks else points
    if INPUT_MASKS in ports:
        prompts |= masks_of(case, ports[INPUT_MASKS])
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


def masks_of(case: PromptCase, port: Port) -> Arrays:
    """The masks of a case, or one that is not read, whose numbers are not those of none, 0."""
    if case.input_masks is not None:
        return {INPUT_MASKS: case.input_masks, HAS_MASKS: np.ones(case.input_masks.shape[:2], np.int64)}
    rows, sides = len(case.pixel_values), map(int, port.shape[2:])
    return {INPUT_MASKS: np.ones((rows, 1, *sides), np.float32), HAS_MASKS: np.zeros((rows, 1), np.int64)}
