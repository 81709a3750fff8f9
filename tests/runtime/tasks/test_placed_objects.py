"""Florence-2's answers as objects, as post_process_generation of transformers' processor has them."""

import random

import pytest
from transformers.models.florence2.processing_florence2 import Florence2PostProcessor, Florence2Processor

from txexport.errors import InputError
from txexport.runtime import placed_objects

SIZES = (613, 479), (1200, 640), (1152, 576), (3, 7000)
LABELS = ["car", "a red house", "two  words", "STOP", "x&y; z"]
READ = [*LABELS, "a < b", "<html>", " >"]
KINDS = (
    *("ocr", "phrase_grounding", "pure_text", "description_with_bboxes", "description_with_polygons"),
    *("polygons", "bboxes", "description_with_bboxes_or_polygons"),
)
BOXED = "<OD>", "<DENSE_REGION_CAPTION>", "<CAPTION_TO_PHRASE_GROUNDING>", "<OPEN_VOCABULARY_DETECTION>"


def marks(rng: random.Random, count: int) -> str:
    return "".join(f"<loc_{rng.randrange(1000)}>" for _ in range(count))


def drawn(rng: random.Random, task: str) -> str:
    """A random answer to a task, often with places that complete no box."""
    if task == "<OCR_WITH_REGION>":
        return "<s>" + "".join(rng.choice(READ) + marks(rng, 8) for _ in range(rng.randrange(4))) + "</s>"
    if task == "<REGION_PROPOSAL>":
        return rng.choice(["", "car"]) + marks(rng, 4 * rng.randrange(5) + rng.randrange(4))
    if task in BOXED:
        counts = [rng.randrange(4, 14) for _ in range(rng.randrange(4))]
        return "</s><s>" + "".join(rng.choice(LABELS) + marks(rng, count) for count in counts) + "<pad>"
    outlines = ["<sep>".join(marks(rng, rng.randrange(2, 13)) for _ in range(rng.randrange(1, 3)))]
    if task.endswith("polygons"):
        outlines = ["".join(f"<poly>{one}</poly>" for one in outlines * rng.randrange(1, 3))]
        return "".join(rng.choice(LABELS) + one for one in outlines * rng.randrange(1, 3))
    return rng.choice(["", "car"]) + outlines[0]


class Tokenizer:
    all_special_tokens = ("<s>", "</s>", "<pad>")


@pytest.fixture(scope="module")
def original():
    """A function from an answer and its task to the library's result."""
    processor = Florence2Processor.__new__(Florence2Processor)
    processor.post_processor = Florence2PostProcessor({kind: {} for kind in KINDS}, Tokenizer())
    kinds = "description_with_bboxes", "phrase_grounding", "description_with_bboxes_or_polygons", "polygons"
    detected, grounded, either, areas = kinds
    processor.tasks_answer_post_processing_type = {
        "<OD>": detected,
        "<DENSE_REGION_CAPTION>": detected,
        "<CAPTION_TO_PHRASE_GROUNDING>": grounded,
        "<OPEN_VOCABULARY_DETECTION>": either,
        "<REFERRING_EXPRESSION_SEGMENTATION>": areas,
        "<REGION_TO_SEGMENTATION>": areas,
        "<REGION_PROPOSAL>": "bboxes",
        "<OCR_WITH_REGION>": "ocr",
    }
    return lambda answer, task, size: processor.post_process_generation(answer, task=task, image_size=size)[
        task
    ]


def flat(one: dict) -> list:
    """A box or the numbers of polygons, as the library lists them."""
    if "box" in one:
        return [*one["box"].values()]
    return [[number for corner in polygon for number in corner] for polygon in one["polygons"]]


TASKS = [
    *BOXED,
    "<OPEN_VOCABULARY_DETECTION> polygons",
    "<REFERRING_EXPRESSION_SEGMENTATION>",
    "<REGION_TO_SEGMENTATION>",
    "<REGION_PROPOSAL>",
    "<OCR_WITH_REGION>",
]


@pytest.mark.parametrize("task", TASKS)
def test_objects_are_the_librarys(task, original):
    rng, seen = random.Random(0), 0
    for number in range(400):
        answer, size = drawn(rng, task), SIZES[number % len(SIZES)]
        objects, expected = placed_objects(answer, task, size), original(answer, task.split()[0], size)
        labels = next((expected[name] for name in ("labels", "polygons_labels") if expected.get(name)), None)
        labels = expected.get("bboxes_labels") if labels is None and "labels" not in expected else labels
        kinds = ("bboxes", "polygons", "quad_boxes")
        values = next((expected[name] for name in kinds if expected.get(name)), [])
        values = [[one] for one in values] if "quad_boxes" in expected else values
        assert [flat(one) for one in objects] == values, answer
        assert [one["label"] for one in objects] == (labels or []), answer
        seen += len(objects)
    assert seen > 100


def test_letters_beyond_ascii_are_kept():
    [one] = placed_objects("un café<loc_0><loc_10><loc_999><loc_500>", "<OD>", (1000, 100))
    assert one == {"label": "un café", "box": {"xmin": 0, "ymin": 1, "xmax": 999, "ymax": 50}}


@pytest.mark.parametrize(
    ("task", "size", "message"),
    [
        ("<CAPTION>", SIZES[0], "whose answers have no places; expected <OD>"),
        ("a dog?", SIZES[0], "whose answers have no places"),
        ("<OD>", (10, 0), "expected an image's width and height in pixels"),
        ("<OD>", (10,), "expected an image's width and height in pixels"),
    ],
)
def test_other_tasks_and_sizes_are_refused(task, size, message):
    with pytest.raises(InputError, match=message):
        placed_objects("car<loc_1><loc_2><loc_3><loc_4>", task, size)
