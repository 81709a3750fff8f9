"""Pages as users give them, and their words as tokens in boxes; N words, S tokens.

Words are split into tokens one by one, and each token has the box of its word, as transformers' tokenizers of
LayoutLM and its descendants do. Words and boxes come from OCR, which is not done here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import numpy as np
from tokenizers import Encoding

from txexport.errors import BundleError, InputError, shown
from txexport.runtime.preprocessing.opened_images import Source
from txexport.runtime.preprocessing.text import as_texts

SIDE = 1000  # the width and the height of a page in the units of boxes
KEYS = ("words", "boxes", "size", "image")
EXPECTED = 'expected {"words": [...], "boxes": [[left, top, right, bottom], ...]}, as OCR gives them'


class Page(TypedDict):
    """The words of a page with the left, top, right and bottom of their boxes, and maybe its image.

    Boxes are of 0 to 1000, where 1000 is the width or the height of the page; with `size`, its width and its
    height, they are in the same units as these, as in pixels.
    """

    words: Sequence[str]
    boxes: Sequence[Sequence[float]]
    size: NotRequired[Sequence[float] | None]
    image: NotRequired[Any]


@dataclass(frozen=True, eq=False)
class PageWords:
    """The words of a page, their boxes (N,4) of 0 to 1000, and its image if there is one."""

    texts: list[str]
    boxes: np.ndarray
    image: "Source | None"


def as_pages(pages: Page | Sequence[Page]) -> list[PageWords]:
    """One page or several as a list. Raises InputError for what is no page."""
    listed = [pages] if isinstance(pages, Mapping) else pages
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise InputError(f"a page is {shown(pages)}, {EXPECTED}")
    return [_page(page) for page in listed]


def _page(page: Any) -> PageWords:
    if not isinstance(page, Mapping) or not {"words", "boxes"} <= page.keys():
        raise InputError(f"a page is {shown(page)}, {EXPECTED}")
    unknown = [name for name in page if name not in KEYS]
    if unknown:
        raise InputError(f"a page has {shown(unknown[0])}, expected {', '.join(KEYS)} alone")
    if isinstance(page["words"], str) or not isinstance(page["words"], Sequence | np.ndarray):
        raise InputError(f"a page's words are {shown(page['words'])}, expected a list of texts")
    texts = list(map(str, as_texts(list(page["words"]))))  # of NumPy's arrays too
    boxes = _boxes(page["boxes"], len(texts))
    if page.get("size") is not None:
        width, height = _size(page["size"])
        boxes = np.trunc(SIDE * (boxes / [width, height, width, height]))
    low, high = boxes[:, :2], boxes[:, 2:]
    wrong = (boxes != np.floor(boxes)).any(1) | (low > high).any(1) | (low < 0).any(1) | (high > SIDE).any(1)
    if wrong.any():
        [first, *_] = np.flatnonzero(wrong)
        raise InputError(
            f"the box of word {first + 1}, {shown(texts[first])}, is {shown(list(page['boxes'][first]))}; "
            f"expected left, top, right and bottom as whole numbers of 0 to {SIDE}, in this order, or in "
            'pixels with the "size" of the page, its width and height'
        )
    return PageWords(texts, boxes.astype(np.int64), page.get("image"))


def _boxes(values: Any, count: int) -> np.ndarray:
    """The boxes (N,4) of `count` words as numbers. Raises InputError for others."""
    boxes = _numbers(values)
    if boxes is None or boxes.shape != ((count, 4) if count else (0,)):
        raise InputError(
            f"the boxes of {count} words are {shown(values)}; expected four numbers for each word"
        )
    return boxes.reshape(count, 4)


def _size(values: Any) -> tuple[float, float]:
    """A page's width and height. Raises InputError for others than two positive numbers."""
    size = _numbers(values)
    if size is None or size.shape != (2,) or min(size) <= 0:
        raise InputError(f"a page's size is {shown(values)}, expected its width and height")
    return float(size[0]), float(size[1])


def _numbers(values: Any) -> np.ndarray | None:
    """Finite numbers as an array of float64; None for anything else, such as texts and truth values."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # rows of several lengths
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" and np.isfinite(array).all() else None


@dataclass(frozen=True)
class SpecialBoxes:
    """The boxes of the first token, and of other special ones; those of questions and padding are zeros."""

    first: tuple[int, ...]
    others: tuple[int, ...]

    def of_tokens(self, encoding: Encoding, boxes: np.ndarray, part: int) -> np.ndarray:
        """Boxes (S,4) of an encoding's tokens; words of text `part` have `boxes` (N,4)."""
        result = np.zeros((len(encoding), 4), np.int64)
        for place, (word, text) in enumerate(zip(encoding.word_ids, encoding.sequence_ids, strict=True)):
            if word is None:
                result[place] = self.others if place else self.first
            elif text == part:
                result[place] = boxes[word]
        return result


def special_boxes(settings: Mapping[str, Any], model_type: str) -> SpecialBoxes:
    """The boxes of special tokens, by tokenizer_config.json, or those of the tokenizer's class.

    Separators of LayoutLM, and of LayoutXLM's tokenizer, are at the page's end.

    Raises BundleError for boxes that are no four numbers.
    """
    kind = str(settings.get("tokenizer_class")).removesuffix("Fast")
    end = SIDE if model_type == "layoutlm" or kind == "LayoutXLMTokenizer" else 0
    read = []
    for name, default in (("cls_token_box", 0), ("sep_token_box", end)):
        box = settings.get(name, [default] * 4)
        fits = isinstance(box, list) and len(box) == 4
        if not fits or not all(type(edge) is int and 0 <= edge <= SIDE for edge in box):
            raise BundleError(
                f"tokenizer_config.json: {name} is {shown(box)}, expected four whole numbers of 0 to {SIDE}"
            )
        read.append(tuple(box))
    return SpecialBoxes(*read)
