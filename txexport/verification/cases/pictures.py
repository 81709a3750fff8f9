"""Images among the tokens of a decoder: their vectors beside the reference's, and prompts with them."""

from collections.abc import Sequence

import numpy as np

from txexport.bundle.manifest import GraphFile
from txexport.contracts import roles
from txexport.contracts.names import (
    GRIDS,
    IMAGE_FEATURES,
    IMAGE_GRIDS,
    IMAGE_SIZES,
    PIXEL_ATTENTION_MASK,
    PIXEL_VALUES,
    POSITION_IDS,
    SPATIAL_SHAPES,
    TILE_GRID,
    media_features,
)
from txexport.parts.cases import DecoderCase, GreedyCase
from txexport.parts.part import PixelInputs
from txexport.runtime.generation.media import Media, Medium, positions_of
from txexport.runtime.generation.pictures import grid_of, length_of, media_of
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.sources import RolePairs
from txexport.verification.references.reference import Arrays, PicturedTokens, Pictures, Source, joined


def run_pictures(
    runner: GraphRunner, case: DecoderCase, expected: Sequence[Arrays], pairs: RolePairs
) -> list[Media]:
    """The media of each row; the vectors of its images are paired with the reference's.

    So are those of a graph of images for onnxruntime-genai.
    """
    assert case.images is not None
    media, vectors = [], image_vectors(runner, case.images)
    if roles.GENAI_VISION in runner.manifest.graphs:
        again = image_vectors(runner, case.images, roles.GENAI_VISION)
        every = [truth[IMAGE_FEATURES] for truth in expected if IMAGE_FEATURES in truth]
        pairs.setdefault((roles.GENAI_VISION, IMAGE_FEATURES), []).append((again, np.concatenate(every)))
    for row, images, truth in zip(case.rows, case.images, expected, strict=True):
        media.append(media_among(runner, row, images, vectors))
        if images:
            count = sum(one.length for one in media[-1])
            computed, vectors = vectors[:count], vectors[count:]
            name = media_features(truth)
            both = computed.reshape(truth[name].shape), truth[name]
            pairs.setdefault((runner.bundle.media_role, name), []).append(both)
    if len(vectors):  # more than the images have
        key = next(one for one in pairs if one[0] == runner.bundle.media_role)
        pairs[key].append((vectors, np.zeros_like(vectors)))
    return media


def image_vectors(
    runner: GraphRunner, images: Sequence[Sequence[PixelInputs]], role: str | None = None
) -> np.ndarray:
    """The vectors (n,W) of the images of each row, in order: from one run, or one an image if tiles are read.

    There must be an image. `role` is that of another graph than the bundle's image encoder.
    """
    role = role or runner.bundle.media_role
    encoder, every = runner.manifest.graphs[role], [images]
    if TILE_GRID in [port.name for port in encoder.inputs] or of_sizes(images):  # one image at a time
        every = [[[image]] for some in images for image in some]
    feeds = [pixels_of(encoder, some) for some in every]
    outputs = [runner.run(role, **one) for one in feeds]
    results = [one[media_features(one)] for one in outputs]
    return np.concatenate([result.reshape(-1, result.shape[-1]) for result in results])


def source_images(
    runner: GraphRunner, case: DecoderCase, expected: Sequence[Arrays], pairs: RolePairs
) -> Arrays:
    """The vectors (n,W) of the images among the tokens of an encoder, or (B,E,W) of the image of each row.

    They are paired with the reference's. Nothing for an encoder that reads none.
    """
    encoder = runner.manifest.graphs.get(roles.ENCODER)
    if encoder is None or IMAGE_FEATURES not in [port.name for port in encoder.inputs]:
        return {}
    [port] = [one for one in encoder.inputs if one.name == IMAGE_FEATURES]
    if len(port.shape) == 3:
        assert case.images is not None
        pixels = joined(image for images in case.images for image in images)
        seen = runner.run(roles.IMAGE_ENCODER, **pixels)[IMAGE_FEATURES]
        of_rows = pairs.setdefault((roles.IMAGE_ENCODER, IMAGE_FEATURES), [])
        of_rows += [(one[None], truth[IMAGE_FEATURES]) for one, truth in zip(seen, expected, strict=True)]
        return {IMAGE_FEATURES: seen}
    every = [np.zeros((0, int(port.shape[1])), np.float32)]
    for images, truth in zip(case.images or [[]] * len(case.rows), expected, strict=True):
        if images:
            vectors = runner.run(roles.IMAGE_ENCODER, **joined(images))[IMAGE_FEATURES]
            both = vectors, truth[IMAGE_FEATURES]
            pairs.setdefault((roles.IMAGE_ENCODER, IMAGE_FEATURES), []).append(both)
            every.append(vectors.reshape(-1, vectors.shape[-1]))
    return {IMAGE_FEATURES: np.concatenate(every)}


def source_of_prompt(case: GreedyCase, row: int, encodes: bool) -> Source:
    """The source that the reference reads for a prompt: the tokens of an encoder, and images."""
    if not encodes:
        return pictures_of(case, row)
    source: Source = case.rows[row]
    return source if case.images is None else PicturedTokens(case.rows[row], case.images[row])


def of_sizes(images: Sequence[Sequence[PixelInputs]]) -> bool:
    """Tell whether images have several heights and widths, which a graph of pixels does not read at once."""
    shapes = {image[PIXEL_VALUES].shape[1:] for some in images for image in some if IMAGE_SIZES in image}
    return len(shapes) > 1


def media_among(
    runner: GraphRunner, row: Sequence[int], images: Sequence[PixelInputs], vectors: np.ndarray
) -> Media:
    """The media of a row, whose images have the first of the `vectors` (n,W)."""
    indices = np.flatnonzero(np.array(row) == runner.bundle.image_token_id)
    media, before = [], 0
    for image in images:
        grid, length = grid_of(runner.bundle, image), length_of(runner.bundle, image)
        part = vectors[before : before + length]
        media.append(Medium(int(indices[before]), length, b"", part, grid))
        before += length
    return tuple(media)


def pictured_inputs(runner: GraphRunner, case: DecoderCase, row: int) -> Arrays:
    """The inputs that a client's model takes for the images of a row; it calls grids by one name.

    A client that computes 3D positions only when it generates is given them.
    """
    assert case.images is not None
    images, tokens = case.images[row], case.rows[row]
    inputs = pixels_of(runner.manifest.graphs[runner.bundle.media_role], [images])
    if GRIDS in inputs:
        inputs[IMAGE_GRIDS] = inputs.pop(GRIDS)
    if IMAGE_GRIDS in inputs:
        rows = [media_among(runner, tokens, images, np.zeros((len(tokens), 0), np.float32))]
        inputs[POSITION_IDS] = positions_of(rows, np.zeros(1, np.int64), len(tokens))
    return inputs


def pixels_of(encoder: GraphFile, images: Sequence[Sequence[PixelInputs]]) -> Arrays:
    """The inputs of a graph of images for those of each row: all in order, or by rows if tiles have a mask.

    The latter are padded with zeros to the most images of a row. Grids have the name that the graph reads.
    """
    read = [port.name for port in encoder.inputs]
    if PIXEL_ATTENTION_MASK not in read or SPATIAL_SHAPES in read:
        every = joined(image for some in images for image in some)
        if GRIDS in every and IMAGE_GRIDS in read:
            every[IMAGE_GRIDS] = every.pop(GRIDS)
        return {name: array for name, array in every.items() if name in read}
    rows = [joined(some).get(PIXEL_VALUES) for some in images]
    counts = np.array([len(some) for some in images])
    shape = next(row.shape[1:] for row in rows if row is not None)
    pixels = np.zeros((len(images), counts.max(), *shape), np.float32)
    for row, some in enumerate(rows):
        if some is not None:
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
    encoder = runner.manifest.graphs[runner.bundle.media_role]
    rows = [[pixels_of(encoder, [[image]]) for image in images] for images in case.images]
    return [media_of(runner.bundle, row, images) for row, images in zip(case.rows, rows, strict=True)]
