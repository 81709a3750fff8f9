"""Seeded test cases of an encoder that reads images among its tokens, before a decoder."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import numpy as np

from txexport.contracts.names import PIXEL_VALUES
from txexport.parts.cases import DecoderCase, GreedyCase, beam_case
from txexport.parts.image_rows import IMAGE, NEW_TOKENS, RAGGED
from txexport.parts.part import PixelInputs, Skipped
from txexport.spec import EncoderDecoderSpec, TextStackSpec

# Rows and columns of vectors of the images of a row, one row after another.
GRIDS = (3, 2), (1, 1), (2, 3), (4, 1), (2, 2)
ALONE = ((IMAGE,),)
ADJACENT = ((IMAGE, IMAGE, 1), (1, IMAGE, IMAGE))
Drawn = tuple[list[list[int]], list[list[PixelInputs]]]


def pictured_sources(spec: EncoderDecoderSpec, seed: int = 0) -> Iterator[DecoderCase | GreedyCase | Skipped]:
    """Sources with none, one and two images of several sizes, read in one batch, and steps of the decoder.

    There are none for an encoder without images. Then prompts with images, to extend by greedy decoding and
    by beam search. A case that is longer than the encoder's limit is skipped.
    """
    if spec.pictures is None:
        return
    random = np.random.default_rng(seed)
    many = tuple(islice(cycle(RAGGED), 9))
    cases: list[DecoderCase | GreedyCase] = []
    for name, layouts, steps in (
        ("three rows of one, no and two images", RAGGED, (3, 1, 1)),
        ("an image alone", ALONE, (1, 2)),
        ("two images in a row", ADJACENT, (2,)),
        ("nine rows of images", many, (1,)),
    ):
        sources, images = _rows(spec, random, layouts)
        counts = np.repeat(np.array(steps)[:, None], len(sources), axis=1)
        rows = [random.integers(0, spec.vocab_size, sum(steps)).tolist() for _ in sources]
        cases.append(DecoderCase(name, rows, counts, sources=sources, images=images))
    [row], _ = _rows(spec, random, ((IMAGE, 2),))
    single, once = "a token of images without an image", np.array([[2]])
    cases.append(DecoderCase(single, [row[-2:]], once, sources=[row[-3:]]))
    sources, images = _rows(spec, random, RAGGED)
    room = min(NEW_TOKENS, (spec.decoder.limit or NEW_TOKENS + 1) - 1)
    cases.append(GreedyCase("greedy, images", sources, room, images=images))
    for case in cases:
        longest = max(map(len, case.rows if isinstance(case, GreedyCase) else case.sources or ()))
        limit = spec.encoder.limit
        if limit is not None and longest > limit:
            yield Skipped(case.name, f"{longest:,} tokens are more than the encoder's {limit:,}")
            continue
        yield case
        if isinstance(case, GreedyCase):
            yield beam_case(case, spec.vocab_size)


def _rows(spec: EncoderDecoderSpec, random: np.random.Generator, layouts: Sequence[Sequence[int]]) -> Drawn:
    """Rows of tokens by their layouts, and the images of each."""
    assert spec.pictures is not None
    assert isinstance(spec.encoder, TextStackSpec)
    assert spec.image_token_id is not None
    token, vocab_size, grids = spec.image_token_id, spec.encoder.embedding.vocab_size, cycle(GRIDS)
    rows: list[list[int]] = []
    images: list[list[PixelInputs]] = []
    for layout in layouts:
        row: list[int] = []
        images.append([])
        grid = next(grids)  # the original reads images of one size in a batch
        for count in layout:
            ids = random.integers(0, vocab_size, count)
            row += np.where(ids == token, (ids + 1) % vocab_size, ids).tolist()
            if count == IMAGE:
                side, less = spec.pictures.side, len(images) % 2
                height, width = ((edge - 1) * side + 1 if less else edge * side for edge in grid)
                shape = 1, spec.pictures.channels, height, width
                images[-1].append({PIXEL_VALUES: random.standard_normal(shape, np.float32)})
                row += [token] * (1 + grid[0] * grid[1])
        rows.append(row)
    return rows, images
