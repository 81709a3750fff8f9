"""Seeded test cases of a decoder that reads images among its tokens."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import numpy as np

from txexport.contracts.names import (
    IMAGE_SIZES,
    PIXEL_ATTENTION_MASK,
    PIXEL_VALUES,
    SPATIAL_SHAPES,
    TILE_GRID,
)
from txexport.contracts.tile_grid import SINGLE, grid_of, vectors_of
from txexport.parts.cases import DecoderCase, GreedyCase, beam_case
from txexport.parts.inputs import input_of
from txexport.parts.part import PixelInputs, Skipped
from txexport.spec import Mutual, VisionLanguageSpec

IMAGE = 0  # in a layout, an image; any other number is that of tokens between images
RAGGED = ((2, IMAGE, 3), (5,), (1, IMAGE, 2, IMAGE, 4))
ADJACENT = ((IMAGE, IMAGE, 1), (1, IMAGE, IMAGE))
APART = ((IMAGE, 1, IMAGE, 1), (1, IMAGE, 1, IMAGE))  # the original takes adjacent ones for one
# Rows and columns of vectors of images of any size, one after another.
GRIDS = (3, 5), (2, 2), (5, 1), (1, 1), (1, 4), (7, 3)
STEPS = 2  # tokens after the prompt, one a step
NEW_TOKENS = 8


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
    cases = [
        DecoderCase("three rows of one, no and two images, then steps", rows, stepwise, images=images),
        DecoderCase("three rows of images in chunks", rows, chunks, images=images),
    ]
    if left:
        cases.append(
            DecoderCase("three rows of images, left padding", rows, stepwise, left=True, images=images)
        )
    for name, layouts in (
        ("an image alone", ((IMAGE,),)),
        ("two images in a row", APART if spec.axes else ADJACENT),
        ("nine rows of images", tuple(islice(cycle(RAGGED), 9))),
    ):
        rows, images = _rows(spec, random, layouts, alike=spec.square > 0 and layouts == ADJACENT)
        steps = np.array([[len(row) for row in rows]])
        cases.append(DecoderCase(name, rows, steps, images=images))
    [row], _ = _rows(spec, random, ((IMAGE, 2),))
    cases.append(DecoderCase("a token of images without an image", [row[-3:]], np.array([[3]])))
    for case in cases:
        longest = max(map(len, case.rows))
        if spec.decoder.limit is not None and longest > spec.decoder.limit:
            yield Skipped(case.name, f"{longest:,} tokens are more than the decoder's {spec.decoder.limit:,}")
        else:
            yield case


def picture_prompts(spec: VisionLanguageSpec, seed: int = 0) -> "Iterator[GreedyCase | Skipped]":
    """Prompts with images and without, to extend by greedy decoding and by beam search."""
    rows, images = _rows(spec, np.random.default_rng(seed), RAGGED)
    room = (spec.decoder.limit or np.inf) - max(map(len, rows))
    prompts = GreedyCase("greedy, images", rows, int(min(NEW_TOKENS, room)), images=images)
    if prompts.new_tokens < 1:
        yield Skipped(prompts.name, "two images are longer than the decoder's longest sequence")
        return
    yield prompts
    yield beam_case(prompts, spec.vocab_size)


def _rows(
    spec: VisionLanguageSpec,
    random: np.random.Generator,
    layouts: Sequence[Sequence[int]],
    alike: bool = False,
) -> tuple[list[list[int]], list[list[PixelInputs]]]:
    """Rows of tokens by their layouts, and the images of each, of one size in a row if `alike`."""
    rows: list[list[int]] = []
    images: list[list[PixelInputs]] = []
    grids = cycle(GRIDS)
    for layout in layouts:
        row: list[int] = []
        images.append([])
        single, grid = layout.count(IMAGE) == 1, GRIDS[0]
        for count in layout:
            ids = random.integers(0, spec.vocab_size, count)
            other = (spec.image_token_id + 1) % spec.vocab_size
            row += np.where(ids == spec.image_token_id, other, ids).tolist()
            if count == IMAGE:
                grid = grid if alike and images[-1] else next(grids)
                image, vectors = _image(spec, random, grid, single)
                images[-1].append(image)
                row += [spec.image_token_id] * vectors
        rows.append(row)
    return rows, images


def _image(
    spec: VisionLanguageSpec, random: np.random.Generator, grid: tuple[int, int], single: bool
) -> tuple[PixelInputs, int]:
    """A random image, and the number of its vectors; `grid` has their sides if any size is read.

    Where tiles are a mosaic, its sides are those of the image in thirds of a tile's; some mosaics cut an
    image that is the `single` one of its row. Patches with a mask are padded to those of the largest image.
    """
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
