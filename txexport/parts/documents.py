"""Seeded test cases of pages: words in their boxes, and images."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from txexport.parts.cases import EncoderCase, encoder_cases
from txexport.parts.part import View
from txexport.spec import DocumentSpec
from txexport.spec.page import SIDE


@dataclass(frozen=True)
class DocumentCase:
    """A padded batch of pages. The reference reads each row separately, without padding, if `separate`.

    `patches` vectors of each page's image follow its tokens.
    """

    name: str
    input_ids: np.ndarray  # (B, S)
    attention_mask: np.ndarray  # (B, S)
    token_type_ids: np.ndarray  # (B, S)
    bbox: np.ndarray  # (B, S, 4)
    pixel_values: np.ndarray | None  # (B, channels, height, width)
    separate: bool
    patches: int = 0


def document_of(spec: DocumentSpec, batch: EncoderCase) -> DocumentCase:
    """A batch of texts with random boxes, and random images if the model reads any."""
    random = np.random.default_rng(len(batch.input_ids))
    page = spec.encoder.embedding.page
    images, patches = None, 0
    if page is not None:
        images = random.standard_normal((len(batch.input_ids), *page.patches.shape), np.float32)
        patches = page.patches.length
    tokens = batch.input_ids, batch.attention_mask, batch.token_type_ids
    boxes = _boxes(random, batch.input_ids.shape)
    return DocumentCase(batch.name, *tokens, boxes, images, batch.alone, patches)


def _boxes(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Boxes (*shape,4) of any place and size on a page; some are points, and some all of the page."""
    corners = random.integers(0, SIDE + 1, (*shape, 2, 2))
    boxes = np.sort(corners, axis=-2).reshape(*shape, 4)
    kinds = random.integers(0, 10, shape)
    boxes[kinds == 0] = 0
    boxes[kinds == 1] = SIDE
    boxes[kinds == 2] = 0, 0, SIDE, SIDE
    return boxes


def document_cases(spec: DocumentSpec, view: View) -> Iterator[DocumentCase]:
    """Padded batches of pages, as those of texts."""
    embedding = spec.encoder.embedding
    padding = embedding.position.pad_token_id
    for batch in encoder_cases(
        embedding.vocab_size,
        spec.encoder.token_types,
        view.longest(spec.encoder),
        padding,
        masks=view.masks,
    ):
        yield document_of(spec, batch)
