"""Seeded test cases of a decoder that reads images or sounds among its tokens."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import numpy as np

from txexport.contracts.names import (
    FEATURE_ATTENTION_MASK,
    IMAGE_SIZES,
    INPUT_FEATURES,
    PIXEL_ATTENTION_MASK,
    PIXEL_VALUES,
    SPATIAL_SHAPES,
    TILE_GRID,
)
from txexport.contracts.tile_grid import SINGLE, grid_of, vectors_of
from txexport.parts.cases import DecoderCase, GreedyCase
from txexport.parts.image_rows import IMAGE, RAGGED, STEPS, Rows, prompts, rows_of, within_limit
from txexport.parts.inputs import input_of
from txexport.parts.part import PixelInputs, Skipped
from txexport.spec import Mutual, VisionLanguageSpec

ADJACENT = ((IMAGE, IMAGE, 1), (1, IMAGE, IMAGE))
APART = ((IMAGE, 1, IMAGE, 1), (1, IMAGE, 1, IMAGE))  # the original takes adjacent ones for one
# Rows and columns of vectors of images of any size, one after another.
GRIDS = (3, 5), (2, 2), (5, 1), (1, 1), (1, 4), (7, 3)


def picture_cases(spec: VisionLanguageSpec, left: bool, seed: int = 0) -> Iterator[DecoderCase | Skipped]:
    """Rows with none, one and two images: in one pass, in chunks that end within an image, before steps.

    Where the tokens of an image attend to each other, a chunk has all of them. `left` adds rows that are
    padded on the left. A case that is longer than the decoder's limit is skipped.
    """
    random = np.random.default_rng(seed)
    rows, images = _rows(spec, random, RAGGED)
    lengths = np.array([len(row) for row in rows])
    one = np.ones((STEPS, len(rows)), np.int64)
    stepwise = np.vstack([lengths - STEPS, one])
    chunk = max(2, rows[0].count(spec.image_token_id) // 2 + 1)
    chunks = _pieces(spec, RAGGED) if spec.mutual == Mutual.IMAGE else _chunks(lengths, chunk)
    what, single = ("sounds", "a sound") if spec.sounds else ("images", "an image")
    cases = [
        DecoderCase(f"three rows of one, no and two {what}, then steps", rows, stepwise, images=images),
        DecoderCase(f"three rows of {what} in chunks", rows, chunks, images=images),
    ]
    if left:
        cases.append(
            DecoderCase(f"three rows of {what}, left padding", rows, stepwise, left=True, images=images)
        )
    for name, layouts in (
        (f"{single} alone", ((IMAGE,),)),
        (f"two {what} in a row", APART if spec.axes else ADJACENT),
        (f"nine rows of {what}", tuple(islice(cycle(RAGGED), 9))),
    ):
        rows, images = _rows(spec, random, layouts, alike=spec.square > 0 and layouts == ADJACENT)
        steps = np.array([[len(row) for row in rows]])
        cases.append(DecoderCase(name, rows, steps, images=images))
    [row], _ = _rows(spec, random, ((IMAGE, 2),))
    name = f"a token of {what} without {single}"
    cases.append(DecoderCase(name, [row[-3:]], np.array([[3]])))
    yield from within_limit(spec, cases)


def picture_prompts(spec: VisionLanguageSpec, seed: int = 0) -> Iterator[GreedyCase | Skipped]:
    """Prompts with images and without, to extend by greedy decoding and by beam search."""
    return prompts(spec, _rows(spec, np.random.default_rng(seed), RAGGED))


def _rows(
    spec: VisionLanguageSpec,
    random: np.random.Generator,
    layouts: Sequence[Sequence[int]],
    alike: bool = False,
) -> Rows:
    """Rows of tokens by their layouts, and the images of each, of one size in a row if `alike`."""
    grids, grid = cycle(GRIDS), GRIDS[0]

    def draw(layout: Sequence[int], before: int) -> tuple[PixelInputs, int]:
        nonlocal grid
        grid = grid if alike and before else next(grids)
        return _image(spec, random, grid, layout.count(IMAGE) == 1)

    return rows_of(spec, random, layouts, draw)


def _image(
    spec: VisionLanguageSpec, random: np.random.Generator, grid: tuple[int, int], single: bool
) -> tuple[PixelInputs, int]:
    """A random image, and the number of its vectors; `grid` has their sides if any size is read.

    Where tiles are a mosaic, its sides are those of the image in thirds of a tile's; some mosaics cut an
    image that is the `single` one of its row. Patches with a mask are padded to those of the largest image.
    """
    if spec.sounds:
        return _sound(spec, random, grid)
    if spec.mosaic is not None:
        height, width = (side * spec.mosaic.tile // 3 + 1 for side in grid)
        tiled = single or spec.mosaic.most is None
        mosaic, size = spec.mosaic, (height, width)
        on_canvas = grid_of(size, mosaic.canvases, mosaic.tile, mosaic.side, mosaic.most)
        numbers = on_canvas if tiled else SINGLE
        tiles = input_of(spec.vision).rows(spec.vision, random, [1] * (1 + numbers[0] * numbers[1]))
        inputs = {TILE_GRID: np.array([numbers]), IMAGE_SIZES: np.array([[height, width]])}
        return {PIXEL_VALUES: np.stack([*map(np.asarray, tiles)]), **inputs}, vectors_of(
            numbers, spec.mosaic.side
        )
    if spec.square:
        grid = (2, 1) if grid == (1, 1) else grid  # the original misreads an image of one vector
        height, width = (side * spec.square for side in grid)
        shape = 1, spec.vision.embedding.shape[0], height, width
        sizes = {IMAGE_SIZES: np.array([[height, width]])}
        return {PIXEL_VALUES: random.standard_normal(shape, np.float32), **sizes}, grid[0] * grid[1]
    if spec.masked_images:
        rows, columns = (side * spec.connector.merged for side in grid)
        most = max(high * wide for high, wide in GRIDS)
        mask = np.arange(most * spec.connector.merged**2) < rows * columns
        patches = random.standard_normal((1, len(mask), spec.vision.embedding.shape[1]), np.float32)
        shapes = {
            PIXEL_ATTENTION_MASK: mask[None].astype(np.int64),
            SPATIAL_SHAPES: np.array([[rows, columns]]),
        }
        return {PIXEL_VALUES: patches * mask[:, None], **shapes}, grid[0] * grid[1]
    packed = spec.vision.packed
    if packed is None:
        [pixels] = input_of(spec.vision).rows(spec.vision, random, [1])
        return {PIXEL_VALUES: np.asarray(pixels)[None]}, spec.connector.vectors
    rows, columns = (side * packed.merged for side in grid)
    patches = random.standard_normal((rows * columns, packed.numbers), np.float32)
    return {PIXEL_VALUES: patches, packed.grids: np.array([[1, rows, columns]])}, grid[0] * grid[1]


def _sound(
    spec: VisionLanguageSpec, random: np.random.Generator, grid: tuple[int, int]
) -> tuple[PixelInputs, int]:
    """A random spectrogram, padding included, and the number of its vectors: by the sides of a `grid`.

    Its frames are as few as make these vectors, or up to a half of one's more. Without a mask, all are read.
    """
    bands, frames = spec.vision.embedding.shape
    each = 2 * spec.connector.consecutive
    if not spec.vision.masked:
        return {INPUT_FEATURES: random.standard_normal((1, bands, frames), np.float32)}, frames // each
    vectors = min(grid[0] * grid[1], frames // each)
    count = min(each * vectors - 1 + (grid[0] + 2 * grid[1]) % each, frames)
    mask = (np.arange(frames) < count)[None].astype(np.int64)
    features = random.standard_normal((1, bands, frames), np.float32)
    return {INPUT_FEATURES: features, FEATURE_ATTENTION_MASK: mask}, vectors


def _pieces(spec: VisionLanguageSpec, layouts: Sequence[Sequence[int]]) -> np.ndarray:
    """The tokens of each row in each step: those of an image, or those between two."""
    most = max(map(len, layouts))
    sizes = [[spec.connector.vectors if count == IMAGE else count for count in one] for one in layouts]
    return np.array([[*one, *[0] * (most - len(one))] for one in sizes]).T


def _chunks(lengths: np.ndarray, size: int) -> np.ndarray:
    """The tokens of each row in each step, at most `size`."""
    steps = -(-lengths.max() // size)
    done = np.arange(steps)[:, None] * size
    return np.clip(lengths - done, 0, size)
