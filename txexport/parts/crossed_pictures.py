"""Seeded test cases of a decoder that attends to images."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import numpy as np

from txexport.contracts.names import ASPECT_RATIO_IDS, ASPECT_RATIO_MASK, PIXEL_VALUES
from txexport.contracts.tile_grid import grids_up_to
from txexport.parts.cases import DecoderCase, GreedyCase, beam_case
from txexport.parts.part import PixelInputs, Skipped
from txexport.spec import CrossVisionLanguageSpec

IMAGE = 0  # in a layout, an image; any other number is that of tokens between images
RAGGED = ((2, IMAGE, 3), (5,), (1, IMAGE, 2, IMAGE, 4))
FIRST = ((IMAGE, 4), (IMAGE, IMAGE, 3), (2, IMAGE, IMAGE, 1, IMAGE))  # adjacent ones are seen together
STEPS = 2  # tokens after the prompt, one a step
CHUNK = 3
NEW_TOKENS = 8


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
    for case in cases:
        longest = max(map(len, case.rows))
        if spec.decoder.limit is not None and longest > spec.decoder.limit:
            yield Skipped(case.name, f"{longest:,} tokens are more than the decoder's {spec.decoder.limit:,}")
        else:
            yield case


def crossed_prompts(spec: CrossVisionLanguageSpec, seed: int = 0) -> "Iterator[GreedyCase | Skipped]":
    """Prompts with images and without, to extend by greedy decoding and by beam search."""
    rows, images = _rows(spec, np.random.default_rng(seed), RAGGED)
    room = (spec.decoder.limit or np.inf) - max(map(len, rows))
    prompts = GreedyCase("greedy, images", rows, int(min(NEW_TOKENS, room)), images=images)
    if prompts.new_tokens < 1:
        yield Skipped(prompts.name, "the prompts are as long as the decoder's longest sequence")
        return
    yield prompts
    yield beam_case(prompts, spec.vocab_size)


def _rows(
    spec: CrossVisionLanguageSpec, random: np.random.Generator, layouts: Sequence[Sequence[int]]
) -> tuple[list[list[int]], list[list[PixelInputs]]]:
    """Rows of tokens by their layouts, and the images of each."""
    rows: list[list[int]] = []
    images: list[list[PixelInputs]] = []
    grids = cycle(grids_up_to(spec.vision.embedding.tiles))
    for layout in layouts:
        row: list[int] = []
        images.append([])
        for count in layout:
            ids = random.integers(0, spec.vocab_size, count)
            other = (spec.image_token_id + 1) % spec.vocab_size
            row += np.where(ids == spec.image_token_id, other, ids).tolist()
            if count == IMAGE:
                images[-1].append(_image(spec, random, next(grids)))
                row.append(spec.image_token_id)
        rows.append(row)
    return rows, images


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
