"""Images that a decoder attends to: what is made of them beside the reference's, and what a step reads."""

from collections.abc import Sequence

import numpy as np

from txexport.contracts import cache_names, roles
from txexport.contracts.names import ASPECT_RATIO_MASK, IMAGE_FEATURES, IMAGE_SPANS
from txexport.parts.cases import DecoderCase
from txexport.parts.part import PixelInputs
from txexport.runtime.generation.crossed_pictures import crossed_arrays
from txexport.runtime.generation.media import Media, Medium
from txexport.runtime.image_keys import ImageKeys
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.sources import RolePairs
from txexport.verification.references.reference import Arrays, joined


def crosses_images(runner: GraphRunner) -> bool:
    """Tell whether the decoder attends to images."""
    graph = runner.manifest.graphs.get(roles.MODEL)
    return graph is not None and any(port.name == IMAGE_SPANS for port in graph.inputs)


def run_crossed(
    runner: GraphRunner, case: DecoderCase, expected: Sequence[Arrays], pairs: RolePairs
) -> Arrays:
    """The inputs of every step for the images of each row, which are paired with the reference's."""
    images = case.images or [[]] * len(case.rows)
    inputs = joined(image for some in images for image in some)
    result = runner.run(roles.IMAGE_ENCODER, **inputs) if inputs else {}
    media: list[Media] = []
    before = 0
    for row, some, truth in zip(case.rows, images, expected, strict=True):
        part = {name: array[before : before + len(some)] for name, array in result.items()}
        before += len(some)
        for name, array in part.items() if some else ():
            pairs.setdefault((roles.IMAGE_ENCODER, name), []).append((array, truth[name]))
        keys = {cache_names.to_past(name): array for name, array in part.items() if name != IMAGE_FEATURES}
        indices = np.flatnonzero(np.array(row) == runner.bundle.image_token_id).tolist() if some else []
        media.append(
            tuple(
                Medium(place, 1, b"", keys=ImageKeys({name: array[i] for name, array in keys.items()}, tiles))
                for i, (place, tiles) in enumerate(zip(indices, map(tiles_of, some), strict=True))
            )
        )
    ports = {port.name: port for port in runner.manifest.graphs[roles.MODEL].inputs}
    return crossed_arrays(ports, media, lambda name: np.float32)


def tiles_of(image: PixelInputs) -> int:
    """The number of an image's tiles."""
    return int(image[ASPECT_RATIO_MASK].sum())
