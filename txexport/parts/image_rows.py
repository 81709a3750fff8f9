"""Rows of tokens and images by their layouts, and the test cases that both kinds of such decoders have."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from txexport.parts.cases import DecoderCase, GreedyCase, beam_case
from txexport.parts.part import PixelInputs, Skipped
from txexport.spec import CrossVisionLanguageSpec, VisionLanguageSpec, VisualRetrieverSpec

IMAGE = 0  # in a layout, an image; any other number is that of tokens between images
RAGGED = ((2, IMAGE, 3), (5,), (1, IMAGE, 2, IMAGE, 4))
STEPS = 2  # tokens after the prompt, one a step
NEW_TOKENS = 8

Spec = VisionLanguageSpec | CrossVisionLanguageSpec
Rows = tuple[list[list[int]], list[list[PixelInputs]]]
# A layout and the number of its images before this one -> the image, and its tokens.
Draw = Callable[[Sequence[int], int], tuple[PixelInputs, int]]


def rows_of(
    spec: Spec | VisualRetrieverSpec,
    random: np.random.Generator,
    layouts: Sequence[Sequence[int]],
    draw: Draw,
) -> Rows:
    """Rows of tokens by their layouts, and the images of each."""
    rows: list[list[int]] = []
    images: list[list[PixelInputs]] = []
    for layout in layouts:
        row: list[int] = []
        images.append([])
        for count in layout:
            ids = random.integers(0, spec.vocab_size, count)
            other = (spec.image_token_id + 1) % spec.vocab_size
            row += np.where(ids == spec.image_token_id, other, ids).tolist()
            if count == IMAGE:
                image, tokens = draw(layout, len(images[-1]))
                images[-1].append(image)
                row += [spec.image_token_id] * tokens
        rows.append(row)
    return rows, images


def within_limit(spec: Spec, cases: Iterable[DecoderCase]) -> Iterator[DecoderCase | Skipped]:
    """The cases; those that are longer than the decoder's limit are skipped."""
    for case in cases:
        longest = max(map(len, case.rows))
        if spec.decoder.limit is not None and longest > spec.decoder.limit:
            yield Skipped(case.name, f"{longest:,} tokens are more than the decoder's {spec.decoder.limit:,}")
        else:
            yield case


def prompts(spec: Spec, drawn: Rows) -> Iterator[GreedyCase | Skipped]:
    """Prompts with images and without, to extend by greedy decoding and by beam search."""
    rows, images = drawn
    room = (spec.decoder.limit or np.inf) - max(map(len, rows))
    what = "sounds" if isinstance(spec, VisionLanguageSpec) and spec.sounds else "images"
    case = GreedyCase(f"greedy, {what}", rows, int(min(NEW_TOKENS, room)), images=images)
    if case.new_tokens < 1:
        yield Skipped(case.name, "the prompts are as long as the decoder's longest sequence")
        return
    yield case
    yield beam_case(case, spec.vocab_size)
