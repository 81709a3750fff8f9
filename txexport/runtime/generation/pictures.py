"""Images and sounds in prompts: their vectors, in the places of the tokens that stand for them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from txexport.contracts.names import (
    FEATURE_ATTENTION_MASK,
    IMAGE_FEATURES,
    INPUT_FEATURES,
    PIXEL_VALUES,
    SPATIAL_SHAPES,
    TILE_GRID,
    media_features,
)
from txexport.contracts.stage import IMAGE, SOUND
from txexport.contracts.tile_grid import vectors_of
from txexport.errors import InputError, counted
from txexport.runtime import memory
from txexport.runtime.generation.crossed_pictures import crossed_media_of, inputs_of
from txexport.runtime.generation.image_memory import remembered
from txexport.runtime.generation.media import Arrays, Media, Medium, digest_of
from txexport.runtime.loaded_bundle import LoadedBundle, check_length
from txexport.runtime.preprocessing.image_packing import Patches
from txexport.runtime.preprocessing.image_splits import SplitImage, masked
from txexport.runtime.preprocessing.image_tiles import Tiles
from txexport.runtime.preprocessing.message_images import PromptImages, listed
from txexport.runtime.preprocessing.message_sounds import PromptSounds
from txexport.runtime.preprocessing.picture_prompts import PicturePrompts, Pieces
from txexport.runtime.preprocessing.question_prompts import QuestionPrompts
from txexport.runtime.preprocessing.sound_prompts import Sound, SoundPrompts, vectors_of_sound
from txexport.runtime.preprocessing.task_prompts import TaskPrompts

Piece: TypeAlias = Pieces | Sound  # an image or a sound in a prompt


def vectors_of_image(bundle: LoadedBundle) -> int | None:
    """The number of vectors that stand for an image, or a tile; None where images are of any size.

    Of images that the decoder attends to, one token tells where they stand.
    """
    if bundle.crosses_images:
        return 1
    facts = bundle.stage(bundle.media_role).facts
    if facts.tile_side:
        return facts.tile_side**2
    if facts.merged_patches or facts.vector_side:
        return None
    size = bundle.sessions[bundle.media_role].outputs[IMAGE_FEATURES].shape[1]
    assert isinstance(size, int)
    return size


def check_reads(bundle: LoadedBundle, images: bool, sounds: bool) -> None:
    """Raise InputError for a bundle whose prompts have no images, or no sounds, which are given."""
    for what, present, read in (
        ("images", images, bundle.reads_images),
        ("sounds", sounds, bundle.reads_sounds),
    ):
        if present and not read:
            raise InputError(f"{what} are given, and {bundle} reads {_read(bundle)}; leave them out")


def _read(bundle: LoadedBundle) -> str:
    """The inputs of a bundle in words."""
    if bundle.reads_sounds or bundle.reads_images:
        return "text with sounds" if bundle.reads_sounds else "text with images"
    prompts = {SOUND: "a sound as a prompt", IMAGE: "an image as a prompt"}
    return prompts.get(bundle.prompt_kind, "text alone")


def prompts_of(bundle: LoadedBundle) -> PicturePrompts | SoundPrompts | TaskPrompts | QuestionPrompts:
    """The form of the images or sounds in the prompts of a bundle that reads them."""
    if bundle.questions_images:
        return QuestionPrompts(bundle.files)
    assert bundle.image_token_id is not None
    if bundle.reads_sounds:
        facts = bundle.stage(bundle.media_role).facts
        return SoundPrompts(bundle.files, bundle.image_token_id, facts.least_samples, facts.vector_stride)
    facts = bundle.stage(bundle.media_role).facts
    if bundle.is_encoder_decoder:
        return TaskPrompts(bundle.files, bundle.image_token_id, facts.vector_side, facts.prefix_tokens)
    most, square = facts.most_tiles or None, facts.vector_side
    return PicturePrompts(bundle.files, bundle.image_token_id, vectors_of_image(bundle), most, square)


def decoded(bundle: LoadedBundle, rows: Sequence[Sequence[int]]) -> list[str]:
    """The texts of answers; those of an encoder-decoder that reads images keep the tokens of places."""
    prompts = prompts_of(bundle) if bundle.reads_media else None
    return prompts.decoded(rows) if isinstance(prompts, TaskPrompts) else bundle.files.text.decode(rows)


def tiles_of(
    bundle: LoadedBundle, images: PromptImages | None, prompts: Any, audio: PromptSounds | None = None
) -> list[list[Piece]]:
    """The images or sounds of each prompt as the bundle reads them; none at all without them.

    Errors as `listed`; raises InputError for what the bundle does not read.
    """
    check_reads(bundle, images is not None, audio is not None)
    if images is None and audio is None:
        return []
    entries = listed(images, prompts) if audio is None else listed(audio, prompts, "sound")
    return [[*prompts_of(bundle).tiles(some)] if some else [] for some in entries]


def read_media(
    bundle: LoadedBundle, rows: Sequence[Sequence[int] | np.ndarray], images: Sequence[Sequence[Piece]]
) -> list[Media]:
    """The media of prompts, of the images of each; none at all where no prompt has any.

    Raises InputError for a prompt that is too long, before any image is encoded.
    """
    if not any(images):
        return []
    check_length(max(map(len, rows)), bundle.max_length(bundle.reader))
    return [
        media_of(bundle, row, [inputs for one in some for inputs in _inputs(bundle, one)])
        for row, some in zip(rows, images, strict=True)
    ]


def _inputs(bundle: LoadedBundle, pieces: Piece) -> Iterator[Arrays]:
    """The inputs of the image encoder for an image, or for each of its tiles."""
    if isinstance(pieces, Sound):
        shape, read = pieces.inputs[INPUT_FEATURES].shape, bundle.sessions[bundle.media_role].inputs
        if [*shape[1:]] != [*read[INPUT_FEATURES].shape[1:]]:
            raise InputError(
                f"a spectrogram is {shape[1:]}, expected {tuple(read[INPUT_FEATURES].shape[1:])}"
            )
        for number in range(len(pieces.inputs[INPUT_FEATURES])):
            yield {name: array[number : number + 1] for name, array in pieces.inputs.items()}
    elif bundle.crosses_images:
        assert isinstance(pieces, Tiles)
        yield inputs_of(bundle, pieces)
    elif isinstance(pieces, SplitImage):
        yield from (masked([part]) for part in pieces.parts)
    elif isinstance(pieces, Patches):
        [grids] = [name for name in bundle.sessions[bundle.media_role].inputs if name != PIXEL_VALUES]
        yield {PIXEL_VALUES: pieces.values, grids: np.array([[1, pieces.rows, pieces.columns]])}
    elif pieces.grid is not None:
        yield {PIXEL_VALUES: pieces.values, TILE_GRID: np.array([pieces.grid])}
    else:
        yield from ({PIXEL_VALUES: tile[None]} for tile in pieces.values)


def media_of(bundle: LoadedBundle, token_ids: Sequence[int] | np.ndarray, images: Iterable[Arrays]) -> Media:
    """The media of a prompt, of the image encoder's inputs for each of its images, or their tiles, in order.

    Raises InputError unless the prompt has as many tokens for images as they have vectors, or one for each if
    the decoder attends to them. A question, which attends to its image, has none.
    """
    if bundle.crosses_images:
        return crossed_media_of(bundle, token_ids, [*images])
    if bundle.questions_images:
        return tuple(
            Medium(0, 1, digest := digest_of(*image.values()), _features(bundle, image, digest))
            for image in images
        )
    indices, inputs = np.flatnonzero(np.asarray(token_ids) == bundle.image_token_id), [*images]
    grids = [grid_of(bundle, one) for one in inputs]
    lengths = [length_of(bundle, one) for one in inputs]
    sound = "sound" if bundle.stage(bundle.media_role).facts.least_samples else "spectrogram"
    what = sound if bundle.reads_sounds else "image"
    if len(indices) != sum(lengths):
        raise InputError(
            f"a prompt has {counted(len(indices), 'token')} for {what}s, expected {sum(lengths)} for "
            f"{counted(len(inputs), what)}"
        )
    media, before = [], 0
    apart = bundle.stage(bundle.media_role).facts.vector_side > 0
    for number, (image, length, grid) in enumerate(zip(inputs, lengths, grids, strict=True)):
        digest, slots = digest_of(*image.values()), indices[before : before + length]
        before += length
        runs = np.split(slots, np.flatnonzero(np.diff(slots) > 1) + 1)
        if len(runs) > 1 and not apart:
            raise InputError(f"the {length} tokens for {what} {number + 1} of a prompt are not in one piece")
        vectors = _features(bundle, image, digest)
        if len(runs) == 1:
            media.append(Medium(int(slots[0]), length, digest, vectors, grid))
        else:
            media += _rows_of(runs, digest, vectors)
    return tuple(media)


def _rows_of(runs: Sequence[np.ndarray], digest: bytes, vectors: np.ndarray) -> Iterator[Medium]:
    """A medium for each row of an image whose rows other tokens separate; `runs` are their token indices."""
    first = 0
    for run in runs:
        part = vectors[first : first + len(run)]
        part_digest = digest_of(np.frombuffer(digest, np.uint8), np.array([first, len(run)]))
        yield Medium(int(run[0]), len(run), part_digest, part)
        first += len(run)


def length_of(bundle: LoadedBundle, image: Mapping[str, np.ndarray]) -> int:
    """The number of vectors of an image, or a tile, by its inputs."""
    facts = bundle.stage(bundle.media_role).facts
    if FEATURE_ATTENTION_MASK in image:
        return vectors_of_sound(
            int(image[FEATURE_ATTENTION_MASK].sum()), facts.least_samples, facts.vector_stride
        )
    if INPUT_FEATURES in image:
        return image[INPUT_FEATURES].shape[2] // facts.vector_stride
    if facts.tile_side:
        return vectors_of(image[TILE_GRID][0].tolist(), facts.tile_side)
    if SPATIAL_SHAPES in image:
        return int(image[SPATIAL_SHAPES].prod()) // facts.merged_patches**2
    if facts.vector_side:
        height, width = image[PIXEL_VALUES].shape[2:]
        rows, columns = (-(-side // facts.vector_side) for side in (height, width))
        return facts.prefix_tokens + rows * columns
    grid = grid_of(bundle, image)
    return (vectors_of_image(bundle) or 0) if grid is None else grid[0] * grid[1]


def grid_of(bundle: LoadedBundle, image: Mapping[str, np.ndarray]) -> tuple[int, int] | None:
    """The rows and columns of an image's vectors, by its inputs, as positions count them; None elsewhere."""
    facts = bundle.stage(bundle.media_role).facts
    merged = facts.merged_patches
    if not merged or facts.vector_side or SPATIAL_SHAPES in image:
        return None
    [(_, rows, columns)] = next(array for name, array in image.items() if name != PIXEL_VALUES).tolist()
    return rows // merged, columns // merged


def _check_room(bundle: LoadedBundle, image: Arrays) -> None:
    """Raise InputError for an image of any size whose patches have more scores than there is memory."""
    facts, shape = bundle.stage(bundle.media_role).facts, image[PIXEL_VALUES].shape
    heads, count, setting = facts.patch_heads, shape[-2], "max_pixels"
    if facts.vector_side and heads:
        count = shape[2] * shape[3] // (facts.vector_side // facts.merged_patches) ** 2
        setting = "longest_edge"
    elif SPATIAL_SHAPES in image:
        setting = "max_image_tokens"
    if heads:
        what = f"attention over the {count:,} patches of an image (a lower {setting} makes fewer)"
        memory.check(what, 4 * heads * count**2)


def _features(bundle: LoadedBundle, image: Arrays, digest: bytes) -> np.ndarray:
    """The vectors (N,W) of an image, which are kept for its next turns in a conversation."""

    def compute() -> np.ndarray:
        if PIXEL_VALUES in image:
            _check_room(bundle, image)
        outputs = bundle.sessions[bundle.media_role].run(image)
        features = outputs[media_features(outputs)]
        return features.reshape(-1, features.shape[-1])

    return remembered(bundle.image_features, digest, compute)
