"""The headings and tables of a page, found by one model and read by another.

python examples/bills/read_page.py tests/data/receipts/bills.png [FOLDER]

A heading is transcribed; of a table the total is asked.
"""

import sys
from pathlib import Path

from PIL import Image

import txexport

MODELS = Path(__file__).parents[2] / "models/pretrained"
QUESTIONS = {"heading": "What is written here?", "table": "What is the total?"}
MARGIN = 5  # pixels around a part
Box = tuple[float, float, float, float]  # left, upper, right and lower edge in pixels


def overlap(one: Box, other: Box) -> float:
    """The intersection of two boxes over the smaller of them."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return max(0.0, width) * max(0.0, height) / smaller


def parts(finder: txexport.Model, page: Image.Image) -> list[tuple[str, Box]]:
    """Label and box of each heading and table, the left column first. Of overlapping ones, the likeliest."""
    result: list[tuple[str, Box]] = []
    for part in finder.detect(page):
        box = tuple(part["box"].values())
        if part["label"] in QUESTIONS and all(overlap(box, other) < 0.5 for _, other in result):
            result.append((part["label"], box))
    return sorted(result, key=lambda part: (part[1][0] > page.width / 2, part[1][1]))


def read(path: Path, folder: Path) -> list[tuple[str, str]]:
    """Export both models into `folder`, and return each part's label and what the reader answers."""
    for name in ("page-finder", "picture-reader"):
        txexport.export(MODELS / name, folder / name, only="native", force=True)
    page = Image.open(path).convert("RGB")
    with txexport.load(folder / "page-finder") as finder:
        boxes = parts(finder, page)
    with txexport.load(folder / "picture-reader") as reader:
        return [
            (label, reader.ask_image(page.crop(widened(box, page)), QUESTIONS[label])) for label, box in boxes
        ]


def widened(box: Box, page: Image.Image) -> tuple[int, int, int, int]:
    """The box with a margin, in whole pixels of the page."""
    left, top, right, bottom = (round(edge) for edge in box)
    return (
        max(0, left - MARGIN),
        max(0, top - MARGIN),
        min(page.width, right + MARGIN),
        min(page.height, bottom + MARGIN),
    )


if __name__ == "__main__":
    for label, answer in read(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "bills")):
        print(f"{label:<8} {answer}")
