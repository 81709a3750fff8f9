"""Seeded test cases of pages and queries, which have a vector for each token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from txexport.contracts.names import PIXEL_VALUES
from txexport.parts.cases import EncoderCase, encoder_cases
from txexport.parts.image_rows import IMAGE, RAGGED, rows_of
from txexport.parts.inputs import input_of
from txexport.parts.part import PixelInputs, Skipped, View
from txexport.spec import VisualRetrieverSpec

# Rows and columns of vectors of images of any size, one after another.
GRIDS = (3, 5), (2, 2), (5, 1), (1, 1), (1, 4), (7, 3)
QUERIES = ((6,), (1,), (9,))


@dataclass(frozen=True)
class PageCase:
    """A padded batch of texts with images among their tokens.

    The reference reads each row separately, if they are `separate` without padding.
    """

    name: str
    input_ids: np.ndarray  # (B, S)
    attention_mask: np.ndarray  # (B, S)
    images: list[list[PixelInputs]]  # of each row
    separate: bool = True


def page_of(spec: VisualRetrieverSpec, batch: EncoderCase) -> PageCase:
    """A batch of texts as queries, which have no images, and no token that stands for them."""
    other = (spec.image_token_id + 1) % spec.vocab_size
    ids = np.where(batch.input_ids == spec.image_token_id, other, batch.input_ids)
    return PageCase(batch.name, ids, batch.attention_mask, [[] for _ in ids], batch.alone)


def page_cases(spec: VisualRetrieverSpec, view: View, seed: int = 0) -> Iterator[PageCase | Skipped]:
    """Pages and queries of ragged lengths, padded on either side; those beyond the limit are skipped.

    The masks of a view have queries alone.
    """
    random = np.random.default_rng(seed)
    longest = view.longest(spec.text)
    if view.masks is not None:
        for batch in encoder_cases(spec.vocab_size, 0, longest, masks=view.masks):
            yield page_of(spec, batch)
        return
    layouts: list[tuple[str, Sequence[Sequence[int]], bool]] = [
        ("one token", ((1,),), False),
        ("a page alone", ((IMAGE, 3),), False),
        ("three ragged queries", QUERIES, False),
        ("three ragged queries, left padding", QUERIES, True),
        ("three rows of one, no and two images", RAGGED, False),
        ("three rows of images, left padding", RAGGED, True),
        ("nine rows of images", tuple(islice(cycle(RAGGED), 9)), False),
        ("longest and short query", ((longest,), (3,)), False),
    ]
    for name, rows, left in layouts:
        case = _drawn(spec, random, name, rows, left)
        tokens = case.input_ids.shape[1]
        if spec.text.limit is not None and tokens > spec.text.limit:
            yield Skipped(name, f"{tokens:,} tokens are more than the model's {spec.text.limit:,}")
        else:
            yield case
    name = "a token of images without an image"
    if view.hub:
        yield Skipped(name, "a graph for other clients reads an image with every batch")
        return
    ids = np.array([[spec.image_token_id, (spec.image_token_id + 1) % spec.vocab_size]])
    yield PageCase(name, ids, np.ones_like(ids), [[]])


def _drawn(
    spec: VisualRetrieverSpec,
    random: np.random.Generator,
    name: str,
    layouts: Sequence[Sequence[int]],
    left: bool,
) -> PageCase:
    """A batch with random tokens and images by the layout of each row, padded on the right unless `left`."""
    grids = cycle(GRIDS)
    rows, images = rows_of(spec, random, layouts, lambda *_: _image(spec, random, next(grids)))
    length = max(map(len, rows))
    ids = random.integers(0, spec.vocab_size, (len(rows), length))
    ids[ids == spec.image_token_id] = (spec.image_token_id + 1) % spec.vocab_size
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        place = slice(length - len(row), length) if left else slice(len(row))
        ids[number, place], mask[number, place] = row, 1
    return PageCase(name, ids, mask, images)


def _image(
    spec: VisualRetrieverSpec, random: np.random.Generator, grid: tuple[int, int]
) -> tuple[PixelInputs, int]:
    """A random image, and the number of its vectors; `grid` has their sides if any size is read."""
    packed = spec.vision.packed
    if packed is None:
        [pixels] = input_of(spec.vision).rows(spec.vision, random, [1])
        return {PIXEL_VALUES: np.asarray(pixels)[None]}, spec.connector.vectors
    rows, columns = (side * packed.merged for side in grid)
    patches = random.standard_normal((rows * columns, packed.numbers), np.float32)
    return {PIXEL_VALUES: patches, packed.grids: np.array([[1, rows, columns]])}, grid[0] * grid[1]
