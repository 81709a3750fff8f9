"""Check of a bundle's prompts of tasks with an image against transformers' processor."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import roles
from txexport.contracts.names import INPUT_IDS, PIXEL_VALUES
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.task_prompts import ALONE, WITH_TEXT, TaskPrompts
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import differs, equal, original
from txexport.verification.processors.signals import VALUES

SIZES = ((37, 53), (53, 37), (224, 224), (225, 301), (500, 190), (190, 500), (97, 12), (16, 16))
PLAIN = ("what is it?", " a cat <loc_7> and  more\n", "{input}", "<cap>")


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Compare token ids and pixels of each task, with an image and without. Raises SkipError."""
    if find_spec("PIL") is None:
        raise SkipError("Pillow is not installed")
    from PIL import Image

    facts = next(one.facts for one in manifest.running_order if one.role == roles.IMAGE_ENCODER)
    assert manifest.image_token_id is not None
    ours = TaskPrompts(BundleFiles(folder), manifest.image_token_id, facts.vector_side, facts.prefix_tokens)
    with_text = [f"{task} a cat<loc_{number}>" for number, task in enumerate(WITH_TEXT)]
    texts = [*ALONE, *with_text, *PLAIN][:: 4 if quick else 1]
    draw = np.random.default_rng(0)
    with original("AutoProcessor", checkpoint, manifest.model_type, backend="pil") as theirs:
        for number, text in enumerate(texts):
            size = SIZES[number % len(SIZES)]
            image = Image.fromarray(draw.integers(0, 256, (*size, 3), dtype=np.uint8))
            _compare(ours, theirs, text, [image])
            _compare(ours, theirs, text, [])
    return [equal("prompts", 2 * len(texts))]


def _compare(ours: TaskPrompts, theirs: Any, text: str, images: list[Any]) -> None:
    """Raise AssertionError for other token ids or pixels of a prompt than transformers'."""
    tiles = ours.tiles(images)
    written = ours.expanded(text, tiles)
    ids = ours.files.text.tokenizer.encode(written, add_special_tokens=ours.adds_tokens).ids
    if images:
        expected = theirs(text=text, images=images, return_tensors="np")
        wanted = np.asarray(expected[INPUT_IDS])[0].tolist()
    else:
        wanted = theirs(text=text)[INPUT_IDS][0]
    if ids != list(wanted):
        differs("token ids", text, ids, wanted)
    if not images:
        return
    pixels, byte = np.asarray(expected[PIXEL_VALUES]), ours.files.images.byte
    tolerance = byte and byte + VALUES
    if tiles[0].values.shape != pixels.shape or not np.abs(tiles[0].values - pixels).max() <= tolerance:
        differs("pixels", text, tiles[0].values.shape, pixels.shape)
