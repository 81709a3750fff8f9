"""Images in prompts: the vectors of pixels, in the places of the tokens that stand for them."""

from collections.abc import Sequence

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import IMAGE_FEATURES, PIXEL_VALUES
from txexport.errors import InputError, counted
from txexport.runtime.generation.media import Media, Medium, digest_of
from txexport.runtime.loaded_bundle import LoadedBundle


def vectors_of_image(bundle: LoadedBundle) -> int:
    """The number of vectors that stand for an image."""
    size = bundle.sessions[roles.IMAGE_ENCODER].outputs[IMAGE_FEATURES].shape[1]
    assert isinstance(size, int)
    return size


def media_of(bundle: LoadedBundle, token_ids: Sequence[int], pixels: Sequence[np.ndarray]) -> Media:
    """The media of a prompt, of the pixels (channels,height,width) of its images in order.

    Raises InputError unless the prompt has as many tokens for images as they have vectors.
    """
    places = np.flatnonzero(np.asarray(token_ids) == bundle.image_token_id)
    length = vectors_of_image(bundle)
    if len(places) != length * len(pixels):
        raise InputError(
            f"a prompt has {counted(len(places), 'token')} for images, expected {length * len(pixels)} for "
            f"{counted(len(pixels), 'image')}"
        )
    media = []
    for number, image in enumerate(pixels):
        digest, first = digest_of(image), int(places[number * length])
        if places[(number + 1) * length - 1] != first + length - 1:
            raise InputError(f"the {length} tokens for image {number + 1} of a prompt are not in one piece")
        result = bundle.sessions[roles.IMAGE_ENCODER].run({PIXEL_VALUES: image[None]})
        media.append(Medium(first, length, digest, result[IMAGE_FEATURES][0]))
    return tuple(media)
