"""Seeded test cases of a decoder that attends to images."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import numpy as np

from txexport.contracts.names import ASPECT_RATIO_IDS, ASPECT_RATIO_MASK, PIXEL_VALUES
from txexport.contracts.tile_grid import grids_up_to
from txexport.parts.cases import DecoderCase, GreedyCase
from txexport.parts.image_rows import IMAGE, RAGGED, STEPS, Rows, prompts, rows_of, within_limit
from txexport.parts.part import PixelInputs, Skipped
from txexport.spec import CrossVisionLanguageSpec

FIRST = ((IMAGE, 4), (IMAGE, IMAGE, 3), (2, IMAGE, IMAGE, 1, IMAGE))  # adjacent ones are seen together
CHUNK = 3


def crossed_cases(
    spec: CrossVisionLanguageSpec, left: bool, seed: int = 0
) -> Iterator[DecoderCase | Skipped]:
    """Rows with none, one and several images: in one pass, in chunks, before steps.

    `left` adds rows that are padded on the left. A case that is longer than the decoder's limit is skipped.
    """
    random = np.random.default_rng(seed)
    rows, images = _rows(spec, random, RAGGED)
    lengths = np.array([len(row) for row in rows])
    stepwise = np.vstack([lengths - STEPS, np.ones((STEPS, len(rows)), np.int64)])
    done = np.arange(-(-lengths.max() // CHUNK))[:, None] * CHUNK
    cases = [
        DecoderCase("three rows of one, no and two images, then steps", rows, stepwise, images=images),
        DecoderCase("three rows of images in chunks", rows, np.clip(lengths - done, 0, CHUNK), images=images),
    ]
    if left:
        name = "three rows of images, left padding"
        cases.append(DecoderCase(name, rows, stepwise, left=True, images=images))
    for name, layouts in (
        ("an image alone", ((IMAGE,),)),
        ("images at the start and in a row", FIRST),
        ("nine rows of images", tuple(islice(cycle(RAGGED), 9))),
    ):
        rows, images = _rows(spec, random, layouts)
        cases.append(DecoderCase(name, rows, np.array([[len(row) for row in rows]]), images=images))
    marked = [spec.image_token_id, *rows[1]]
    cases.append(DecoderCase("a token of images without an image", [marked], np.array([[len(marked)]])))
    yield from within_limit(spec, cases)


def crossed_prompts(spec: CrossVisionLanguageSpec, seed: int = 0) -> Iterator[GreedyCase | Skipped]:
    """Prompts with images and without, to extend by greedy decoding and by beam search."""
    return prompts(spec, _rows(spec, np.random.default_rng(seed), RAGGED))


def _rows(
    spec: CrossVisionLanguageSpec, random: np.random.Generator, layouts: Sequence[Sequence[int]]
) -> Rows:
    """Rows of tokens by their layouts, and the images of each, for which one token stands."""
    grids = cycle(grids_up_to(spec.vision.embedding.tiles))
    return rows_of(spec, random, layouts, lambda *_: (_image(spec, random, next(grids)), 1))


def _image(spec: CrossVisionLanguageSpec, random: np.random.Generator, grid: tuple[int, int]) -> PixelInputs:
    """A random image with tiles of that grid, and padding up to the most tiles."""
    embedding = spec.vision.embedding
    real = np.arange(embedding.tiles) < grid[0] * grid[1]
    pixels = random.standard_normal((1, *embedding.shape), np.float32)
    number = 1 + grids_up_to(embedding.tiles).index(grid)
    return {
        PIXEL_VALUES: pixels * real[:, None, None, None],
        ASPECT_RATIO_IDS: np.array([number]),
        ASPECT_RATIO_MASK: real[None].astype(np.int64),
    }
