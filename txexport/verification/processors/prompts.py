"""Check of the bundle's prompts with images against transformers' processors."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle import read_json
from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.image_size import Resized
from txexport.contracts import roles
from txexport.contracts.names import (
    IMAGE_FEATURES,
    IMAGE_GRIDS,
    IMAGE_SIZES,
    INPUT_IDS,
    PIXEL_ATTENTION_MASK,
    PIXEL_VALUES,
    SPATIAL_SHAPES,
)
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.generation.crossed_pictures import spans_of
from txexport.runtime.generation.media import Medium
from txexport.runtime.image_keys import ImageKeys
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.chat_templates import templates_of
from txexport.runtime.preprocessing.image_splits import SplitImage, masked
from txexport.runtime.preprocessing.message_images import without_images
from txexport.runtime.preprocessing.padded_tiles import PaddedTiles, of_images
from txexport.runtime.preprocessing.picture_prompts import PicturePrompts
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import differs, equal, original
from txexport.verification.processors.signals import VALUES

MASK = "cross_attention_mask"  # of transformers' processor
SIZES = ((37, 53), (53, 37), (224, 224), (225, 301), (500, 190), (190, 500), (97, 12), (16, 16))
ROWS = ((), (0,), (1, 2), (3,), (4, 5, 6), (7, 7))  # the images of each prompt


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Compare token ids and pixels of prompts, and of conversations where the bundle has a template.

    Where a decoder attends to images, which tokens see which tiles too.
    """
    if find_spec("PIL") is None:
        raise SkipError("Pillow is not installed")
    if isinstance(checkpoint, Resized):
        raise SkipError("export changed the size of images, so that they are not the checkpoint's")
    outputs = manifest.graphs[roles.IMAGE_ENCODER].outputs
    shape = next(port.shape for port in outputs if port.name == IMAGE_FEATURES)
    vectors = shape[1] if len(shape) == 3 else None  # of images of one size
    assert isinstance(vectors, int | None)
    assert manifest.image_token_id is not None
    facts = next(one.facts for one in manifest.running_order if one.role == roles.IMAGE_ENCODER)
    vectors = facts.tile_side**2 or vectors
    ours = PicturePrompts(
        BundleFiles(folder), manifest.image_token_id, vectors, facts.most_tiles or None, facts.vector_side
    )
    rows = [*_rows()][: 3 if quick else None]
    if ours.begins_itself:  # transformers' processor demands an image
        rows = [*filter(None, rows)]
    with original("AutoProcessor", checkpoint, manifest.model_type, backend="pil") as theirs:
        for number, images in enumerate(rows):
            text = "".join(f"word {ours.mark} and " for _ in images) + "more"
            tiles = ours.tiles(images)
            written, adds = ours.expanded(text, tiles), ours.adds_tokens
            ids = ours.files.text.tokenizer.encode(written, add_special_tokens=adds).ids
            nested = images if ours.most is None else [images]  # which are those of one prompt
            expected = theirs(text=text, images=nested if images else None, return_tensors="np")
            _compare(f"prompt {number}", ids, tiles, expected, ours)
        checks = [equal("prompts", len(rows))]
        if templates_of(folder, read_json(folder / "tokenizer_config.json", missing={})):
            for number, images in enumerate(rows):
                _compare(f"conversation {number}", *_chatted(ours, theirs, images), ours)
            checks.append(equal("conversations", len(rows)))
    return checks


def _seen(ids: list[int], tiles: list[Any], token_id: int, most: int) -> np.ndarray:
    """The tiles (S,I,T) that each token attends to, as the runtime describes them to the graph."""
    indices = np.flatnonzero(np.array(ids) == token_id).tolist()
    keys = [ImageKeys({}, len(one.values)) for one in tiles]
    pairs = zip(indices, keys, strict=True)
    spans = spans_of(tuple(Medium(place, 1, b"", keys=one) for place, one in pairs))  # (I, 3)
    order = np.arange(len(ids))[:, None]
    inside = (spans[:, 0] <= order) & (order < spans[:, 1])  # (S, I)
    return inside[:, :, None] & (np.arange(most) < spans[:, 2:])


def _chatted(ours: PicturePrompts, theirs: Any, images: list[Any]) -> tuple[list[int], list[Any], Any]:
    """Token ids and tiles of a conversation, and what transformers makes of it."""
    parts = [part for image in images for part in ({"type": "image", "image": image}, _text("what is it?"))]
    messages = [{"role": "user", "content": [*parts, _text("and that")]}]
    plain, sources = without_images(messages)
    text, tiles, adds = ours.chat(Conversation(plain), sources)
    ids = ours.files.text.tokenizer.encode(text, add_special_tokens=adds).ids
    expected = theirs.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="np"
    )
    return ids, tiles, expected


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _rows() -> Iterator[list[Any]]:
    """The images of each prompt, of many sizes."""
    from PIL import Image

    draw = np.random.default_rng(0)
    for row in ROWS:
        sizes = [SIZES[number] for number in row]
        yield [Image.fromarray(draw.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in sizes]


def _compare(name: str, ids: list[int], tiles: list[Any], expected: Any, ours: PicturePrompts) -> None:
    """Raise AssertionError for other token ids or pixels than those expected."""
    wanted = np.asarray(expected[INPUT_IDS])[0].tolist()
    if ids != wanted:
        differs("token ids", name, ids, wanted)
    if not tiles:
        return
    pixels = np.asarray(expected[PIXEL_VALUES])
    size = ours.files.images.size
    if isinstance(size, PaddedTiles):
        inputs = of_images(tiles, size)
        for other, array in (inputs | {MASK: _seen(ids, tiles, ours.token_id, size.most)}).items():
            if not np.array_equal(array, np.asarray(expected[other])[0]):
                what = "pixels" if other == PIXEL_VALUES else other.replace("_", " ")
                differs(what, name, array.shape, np.asarray(expected[other]).shape)
        return
    if ours.square and len(tiles) > 1:  # each with padding there
        sizes = np.asarray(expected[IMAGE_SIZES]).tolist()
        for one, theirs, (height, width) in zip(tiles, pixels, sizes, strict=True):
            one_image = {INPUT_IDS: expected[INPUT_IDS], PIXEL_VALUES: theirs[None, :, :height, :width]}
            _compare(name, ids, [one], one_image, ours)
        return
    if isinstance(tiles[0], SplitImage):
        inputs = masked([part for one in tiles for part in one.parts], pixels.shape[1])
        for other in (PIXEL_ATTENTION_MASK, SPATIAL_SHAPES):
            if not np.array_equal(inputs[other], expected[other]):
                differs(other.replace("_", " "), name, inputs[other], expected[other])
        values = inputs[PIXEL_VALUES]
    else:
        values = np.concatenate([one.values for one in tiles])
    if getattr(tiles[0], "grid", None) is not None:  # without tiles of padding
        pixels = np.concatenate([row[: len(one.values)] for row, one in zip(pixels, tiles, strict=True)])
    pixels = pixels if pixels.ndim < 4 else pixels.reshape(-1, *pixels.shape[-3:])
    byte = ours.files.images.byte
    tolerance = byte and byte + VALUES
    if values.shape != pixels.shape or not np.abs(values - pixels).max() <= tolerance:
        differs("pixels", name, values.shape, pixels.shape)
    if IMAGE_GRIDS in expected:
        grids = [[1, one.rows, one.columns] for one in tiles]
        if grids != expected[IMAGE_GRIDS].tolist():
            differs("grids", name, grids, expected[IMAGE_GRIDS].tolist())
