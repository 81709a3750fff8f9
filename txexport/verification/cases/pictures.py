"""Images among the tokens of a decoder: their vectors beside the reference's, and prompts with them."""

from collections.abc import Sequence

import numpy as np

from txexport.bundle.manifest import GraphFile
from txexport.contracts import roles
from txexport.contracts.names import IMAGE_FEATURES, PIXEL_ATTENTION_MASK, PIXEL_VALUES
from txexport.parts.cases import DecoderCase, GreedyCase
from txexport.runtime.generation.media import Media
from txexport.runtime.generation.pictures import media_of
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.sources import RolePairs
from txexport.verification.references.originals import Arrays, Pictures


def run_pictures(
    runner: GraphRunner, case: DecoderCase, expected: Sequence[Arrays], pairs: RolePairs
) -> list[np.ndarray]:
    """The vectors (n,W) of each row's images, from one run over all; paired with the reference's."""
    assert case.images is not None
    counts = np.array([len(images) for images in case.images])
    feeds = pixels_of(runner.manifest.graphs[roles.IMAGE_ENCODER], case.images)
    result = runner.run(roles.IMAGE_ENCODER, **feeds)[IMAGE_FEATURES]  # (I, N, W)
    rows = np.split(result, np.cumsum(counts)[:-1])
    for vectors, truth in zip(rows, expected, strict=True):
        if len(vectors):
            both = vectors, truth[IMAGE_FEATURES]
            pairs.setdefault((roles.IMAGE_ENCODER, IMAGE_FEATURES), []).append(both)
    return [row.reshape(-1, row.shape[2]) for row in rows]


def pixels_of(encoder: GraphFile, images: Sequence[np.ndarray]) -> Arrays:
    """The inputs of a graph of images for those of each row: all in order, or by rows where it has a mask.

    The latter are padded with zeros to the most images of a row.
    """
    if PIXEL_ATTENTION_MASK not in [port.name for port in encoder.inputs]:
        return {PIXEL_VALUES: np.concatenate([*images])}
    counts = np.array([len(some) for some in images])
    shape = images[0].shape[1:]
    pixels = np.zeros((len(images), counts.max(), *shape), np.float32)
    for row, some in enumerate(images):
        pixels[row, : len(some)] = some
    real = np.arange(counts.max()) < counts[:, None]
    mask = np.broadcast_to(real[:, :, None, None], (*real.shape, *shape[1:])).copy()
    return {PIXEL_VALUES: pixels, PIXEL_ATTENTION_MASK: mask}


def pictures_of(case: DecoderCase | GreedyCase, row: int) -> Pictures | None:
    """The images of a row as the reference reads them."""
    return None if case.images is None else Pictures(case.images[row])


def media(runner: GraphRunner, case: GreedyCase) -> list[Media]:
    """The media of each prompt, as the runtime makes them of pixels."""
    if case.images is None:
        return []
    return [media_of(runner.bundle, row, images) for row, images in zip(case.rows, case.images, strict=True)]
