"""Images in prompts: the vectors of pixels, in the places of the tokens that stand for them."""

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import IMAGE_FEATURES, PIXEL_VALUES
from txexport.errors import InputError, counted
from txexport.runtime.generation.media import Media, Medium, digest_of
from txexport.runtime.loaded_bundle import LoadedBundle, check_length
from txexport.runtime.preprocessing.image_tiles import Tiles
from txexport.runtime.preprocessing.message_images import PromptImages, listed
from txexport.runtime.preprocessing.picture_prompts import PicturePrompts

MOST_BYTES = 2**28  # of the vectors that are kept: 28 images of LLaVA 1.5, 7B, or 1800 tiles of SmolVLM-256M
CHANGES = threading.Lock()


def vectors_of_image(bundle: LoadedBundle) -> int:
    """The number of vectors that stand for an image."""
    size = bundle.sessions[roles.IMAGE_ENCODER].outputs[IMAGE_FEATURES].shape[1]
    assert isinstance(size, int)
    return size


def check_reads_images(bundle: LoadedBundle) -> None:
    """Raise InputError for a bundle whose prompts have no images."""
    if bundle.image_token_id is None:
        raise InputError(f"images are given, and {bundle} reads text alone; leave them out")


def prompts_of(bundle: LoadedBundle) -> PicturePrompts:
    """The form of images in a bundle's prompts. Raises InputError where there are none."""
    check_reads_images(bundle)
    assert bundle.image_token_id is not None
    return PicturePrompts(bundle.files, bundle.image_token_id, vectors_of_image(bundle))


def tiles_of(bundle: LoadedBundle, images: PromptImages | None, prompts: Any) -> list[list[Tiles]]:
    """The images of each prompt as the bundle reads them; none at all without images. Errors as `listed`."""
    if images is None:
        return []
    entries = listed(images, prompts)
    return [prompts_of(bundle).tiles(some) if some else [] for some in entries]


def read_media(
    bundle: LoadedBundle, rows: Sequence[Sequence[int] | np.ndarray], images: Sequence[Sequence[Tiles]]
) -> list[Media]:
    """The media of prompts, of the images of each; none at all where no prompt has any.

    Raises InputError for a prompt that is too long, before any image is encoded.
    """
    if not any(images):
        return []
    check_length(max(map(len, rows)), bundle.max_length(bundle.reader))
    return [
        media_of(bundle, row, [tile for one in some for tile in one.values])
        for row, some in zip(rows, images, strict=True)
    ]


def media_of(
    bundle: LoadedBundle, token_ids: Sequence[int] | np.ndarray, pixels: Iterable[np.ndarray]
) -> Media:
    """The media of a prompt, of the pixels (channels,height,width) of its images, or their tiles, in order.

    Raises InputError unless the prompt has as many tokens for images as they have vectors.
    """
    indices, images = np.flatnonzero(np.asarray(token_ids) == bundle.image_token_id), [*pixels]
    length = vectors_of_image(bundle)
    if len(indices) != length * len(images):
        raise InputError(
            f"a prompt has {counted(len(indices), 'token')} for images, expected {length * len(images)} for "
            f"{counted(len(images), 'image')}"
        )
    media = []
    for number, image in enumerate(images):
        digest, first = digest_of(image), int(indices[number * length])
        if indices[(number + 1) * length - 1] != first + length - 1:
            raise InputError(f"the {length} tokens for image {number + 1} of a prompt are not in one piece")
        media.append(Medium(first, length, digest, _features(bundle, image, digest)))
    return tuple(media)


def _features(bundle: LoadedBundle, pixels: np.ndarray, digest: bytes) -> np.ndarray:
    """The vectors (N,W) of an image, which are kept for its next turns in a conversation."""
    known = bundle.image_features
    vectors = known.get(digest)
    if vectors is None:
        [vectors] = bundle.sessions[roles.IMAGE_ENCODER].run({PIXEL_VALUES: pixels[None]})[IMAGE_FEATURES]
        with CHANGES:  # requests of a server run side by side
            known[digest] = vectors
            size = sum(one.nbytes for one in known.values())
            while size > MOST_BYTES:
                size -= known.pop(next(iter(known))).nbytes
    return vectors
