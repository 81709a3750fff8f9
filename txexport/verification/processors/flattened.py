"""Check of a bundle's images as patches in a row, with questions above them, against transformers'."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import BundleError, UnsupportedError
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.opened_images import opened
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import original
from txexport.verification.processors.signals import VALUES, check_there, difference, images_of_modes

QUESTIONS = ("what is it?", "Generate underlying data table of the figure below:", "a word and another " * 9)


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Compare patches of images of every mode and several sizes. Raises SkipError."""
    check_there(folder, "image processor")
    if find_spec("PIL") is None:
        raise SkipError("Pillow is not installed")
    try:
        ours = BundleFiles(folder).flattened
    except (BundleError, UnsupportedError) as error:
        raise SkipError(str(error)) from None
    if ours.draws and not ours.font.is_file():
        raise SkipError(f"questions are drawn with {ours.font.name}, which is not there")
    checks = []
    with original("AutoImageProcessor", checkpoint, manifest.model_type, backend="pil") as theirs:
        for number, (name, image) in enumerate(images_of_modes(quick)):
            read: Any = image
            if ours.draws:
                question = QUESTIONS[number % len(QUESTIONS)]
                pixels = np.asarray(opened(image, ours.on_white)).transpose(2, 0, 1)
                read = theirs.render_header(pixels, question, font_path=str(ours.font)).transpose(1, 2, 0)
                rows = ours.asked([(image, question)])
            else:
                rows = ours.pixels(image)
            expected = theirs(read, return_tensors="np", is_vqa=False)
            checks += [
                difference(f"{key.replace('_', ' ')} of {name}", value, expected[key], VALUES)
                for key, value in ours.inputs(rows).items()
            ]
    return checks
