"""Florence-2's answers as objects: labels with boxes or polygons in pixels (Xiao et al. 2024, 3)."""

import re
from collections.abc import Iterator, Sequence
from typing import NotRequired, TypedDict

import numpy as np

from txexport.errors import InputError, shown
from txexport.runtime.preprocessing.task_prompts import ALONE, WITH_TEXT
from txexport.runtime.tasks.detection import Box
from txexport.support.arguments import checked, is_whole

BINS = 1000  # of an image's width and height; a place is the middle of one
EDGES, QUADRANGLE = 4, 8  # numbers of a box, and of the four corners of a text
BOXES = "<OD>", "<DENSE_REGION_CAPTION>", "<CAPTION_TO_PHRASE_GROUNDING>"
PROPOSALS, TEXTS, EITHER = "<REGION_PROPOSAL>", "<OCR_WITH_REGION>", "<OPEN_VOCABULARY_DETECTION>"
AREAS = "<REFERRING_EXPRESSION_SEGMENTATION>", "<REGION_TO_SEGMENTATION>"
ENDS = re.compile("<s>|</s>|<pad>")
TEXT = re.compile(r"(.+?)((?:<loc_\d+>){8})")
BOXED = r"((?:<loc_\d+>){4,})"
OUTLINED = r"((?:<loc_\d+>|<poly>|</poly>|<sep>){4,})"
NUMBER = re.compile(r"<loc_(\d+)>")
POLYGONS = re.compile(r"<poly>(.*?)</poly>")


class PlacedObject(TypedDict):
    """An object of an answer: its label, which may be empty, and its box or its polygons.

    A polygon has the x and y of its corners. All are whole pixels, from the image's left and upper edge.
    """

    label: str
    box: NotRequired[Box]
    polygons: NotRequired[list[list[list[int]]]]


@checked
def placed_objects(answer: str, task: str, size: Sequence[int]) -> list[PlacedObject]:
    """The objects in Florence-2's `answer` to a `task` about an image of `size`, (width, height) in pixels.

    `task` is as given to `ask_image`, with or without a text, such as <OD>. Objects equal those of the
    original's `post_process_generation`; labels of boxes keep letters beyond ASCII, which it drops.
    Raises InputError for a task whose answers have no places, and for a size that is not positive.
    """
    width, height = _size(size)
    name = next((name for name in (*ALONE, *WITH_TEXT) if task.startswith(name)), None)
    if name not in (*BOXES, *AREAS, PROPOSALS, TEXTS, EITHER):
        expected = ", ".join((*BOXES, PROPOSALS, TEXTS, EITHER, *AREAS))
        raise InputError(f"task is {shown(task)}, whose answers have no places; expected {expected}")
    polygons = name in AREAS or (name == EITHER and "<poly>" in answer)
    label_pattern = "()" if name in AREAS or name == PROPOSALS else "([^<]+)"
    pattern = TEXT if name == TEXTS else re.compile(label_pattern + (OUTLINED if polygons else BOXED))
    result: list[PlacedObject] = []
    for label, marks in pattern.findall(ENDS.sub("", answer)):
        label = label.strip()
        if polygons:
            outlines = (_polygons(part, width, height) for part in POLYGONS.findall(marks) or [marks])
            result += [{"label": label, "polygons": outline} for outline in outlines if outline]
        elif name == TEXTS:
            [quadrangle] = _groups(marks, QUADRANGLE, width, height)
            result.append({"label": label, "polygons": [_corners(quadrangle)]})
        else:
            boxes = _groups(marks, EDGES, width, height)
            result += [{"label": label, "box": _box(*box)} for box in boxes]
    return result


def _size(size: Sequence[int]) -> tuple[int, int]:
    if len(size) != 2 or not all(is_whole(edge, 1) for edge in size):
        raise InputError(f"size is {shown(size)}, expected an image's width and height in pixels")
    return size[0], size[1]


def _groups(marks: str, count: int, width: int, height: int) -> Iterator[list[int]]:
    """Places in pixels, in complete groups of `count` numbers, x and y in turn.

    In float32, as the original: where a middle falls between two pixels, its rounding decides.
    """
    numbers = np.array([int(number) for number in NUMBER.findall(marks)])
    numbers = numbers[: len(numbers) // count * count].reshape(-1, 2)
    pixels = (numbers + 0.5).astype(np.float32) * np.array([width / BINS, height / BINS], np.float32)
    yield from pixels.astype(int).reshape(-1, count).tolist()


def _box(xmin: int, ymin: int, xmax: int, ymax: int) -> Box:
    return {"xmin": xmin, "ymin": ymin, "xmax": xmax, "ymax": ymax}


def _corners(numbers: list[int]) -> list[list[int]]:
    return [numbers[i : i + 2] for i in range(0, len(numbers), 2)]


def _polygons(marks: str, width: int, height: int) -> list[list[list[int]]]:
    """The polygons between <sep>."""
    outlines = (list(_groups(part, 2, width, height)) for part in marks.split("<sep>"))
    return [corners for corners in outlines if corners]
