"""Images that a decoder attends to: their keys and values, made once, and the tokens that see them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from txexport.contracts import Port, cache_names, roles
from txexport.contracts.names import ASPECT_RATIO_MASK, IMAGE_SPANS, PIXEL_VALUES
from txexport.errors import BundleError, InputError, counted
from txexport.runtime import memory
from txexport.runtime.generation.image_memory import remembered
from txexport.runtime.generation.media import Arrays, Media, Medium, digest_of
from txexport.runtime.image_keys import ImageKeys
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.image_tiles import Tiles
from txexport.runtime.preprocessing.padded_tiles import PaddedTiles, of_images
from txexport.runtime.session import Session, Value

ALWAYS = 2**31 - 1  # the place that no longer sees an image which all later tokens see
NUMBERS = 3  # of a span: the first place, the place behind the last, and tiles


def inputs_of(bundle: LoadedBundle, tiles: Tiles) -> Arrays:
    """The inputs of the image encoder for an image. Raises BundleError for another number of tiles."""
    size = bundle.files.images.size
    inputs = bundle.sessions[roles.IMAGE_ENCODER].inputs
    most, side = inputs[ASPECT_RATIO_MASK].shape[1], inputs[PIXEL_VALUES].shape[-1]
    if not isinstance(size, PaddedTiles) or (size.most, size.side) != (most, side):
        raise BundleError(
            f"{bundle.folder}: preprocessor_config.json cuts images as {size}, but the model reads "
            f"{most} tiles of {side} pixels a side; take the checkpoint's own"
        )
    return of_images([tiles], size)


def crossed_media_of(
    bundle: LoadedBundle, token_ids: Sequence[int] | np.ndarray, images: Sequence[Mapping[str, np.ndarray]]
) -> Media:
    """The media of a prompt, of the image encoder's inputs for each of its images, in order.

    Raises InputError unless the prompt has a token for each image.
    """
    indices = np.flatnonzero(np.asarray(token_ids) == bundle.image_token_id)
    if len(indices) != len(images):
        raise InputError(
            f"a prompt has {counted(len(indices), 'token')} for images, expected {len(images)} for "
            f"{counted(len(images), 'image')}"
        )
    media = []
    for index, image in zip(indices.tolist(), images, strict=True):
        digest = digest_of(*image.values())
        media.append(Medium(index, 1, digest, keys=_keys(bundle, image, digest)))
    return tuple(media)


def _keys(bundle: LoadedBundle, image: Mapping[str, np.ndarray], digest: bytes) -> ImageKeys:
    """The keys and values of an image, which are kept for its next turns in a conversation."""

    def compute() -> ImageKeys:
        session = bundle.sessions[roles.IMAGE_ENCODER]
        wanted = [name for name in session.outputs if cache_names.is_present(name)]
        values = session.run_values({name: session.value(array) for name, array in image.items()}, wanted)
        arrays = {cache_names.to_past(name): values[name].numpy()[0] for name in wanted}
        return ImageKeys(arrays, int(image[ASPECT_RATIO_MASK].sum()))

    return remembered(bundle.image_keys, digest, compute)


def spans_of(media: Media) -> np.ndarray:
    """The spans (I,3) of a prompt's images: the first token that sees one, the one behind the last, tiles.

    A token sees the image before it, and those adjacent to that one, as in transformers'
    get_cross_attention_token_mask; tokens that are generated see what the prompt's last one sees.
    """
    spans, end = np.zeros((len(media), NUMBERS), np.int64), ALWAYS
    following = ALWAYS
    for span, medium in zip(spans[::-1], media[::-1], strict=True):
        assert medium.keys is not None
        end = end if following == medium.end else following
        span[:] = medium.position, end, medium.keys.tiles
        following = medium.position
    return spans


def crossed_inputs(session: Session, rows: Sequence[Media], copies: int = 1) -> dict[str, Value]:
    """The inputs of every step of a batch for the images of each row, which beams or answers copy.

    Raises InputError where they and their `copies` exceed the memory.
    """
    sizes = [one.keys.nbytes for media in rows for one in media if one.keys is not None]
    size = len(rows) * max(map(len, rows)) * max(sizes, default=0)
    memory.check("keys and values of images", size * copies)
    arrays = crossed_arrays(session.inputs, rows, session.dtype)
    return {name: session.value(array) for name, array in arrays.items()}


def crossed_arrays(
    ports: Mapping[str, Port], rows: Sequence[Media], dtype: Callable[[str], type[np.generic]]
) -> Arrays:
    """The spans (B,I,3) of the images of each row, and their keys and values (B,K,E,H), one after another.

    Rows with fewer images than others are padded with zeros. Attention needs a key, so there is one that no
    token sees where no row has an image.
    """
    most = max(map(len, rows))
    spans = np.zeros((len(rows), most, NUMBERS), np.int64)
    for row, media in zip(spans, rows, strict=True):
        row[: len(media)] = spans_of(media)
    arrays = {IMAGE_SPANS: spans}
    every = [one.keys for media in rows for one in media if one.keys is not None]
    for name in [name for name in ports if cache_names.is_past(name) and cache_names.is_cross(name)]:
        heads, size = int(ports[name].shape[1]), int(ports[name].shape[3])
        length = every[0].arrays[name].shape[1] if every else 1
        joined = np.zeros((len(rows), heads, max(1, most) * length, size), dtype(name))
        for row, media in zip(joined, rows, strict=True):
            for number, medium in enumerate(media):
                assert medium.keys is not None
                row[:, number * length : (number + 1) * length] = medium.keys.arrays[name]
        arrays[name] = joined
    return arrays
