"""Check of a bundle's pages and queries against transformers' processors of ColPali and ColQwen2."""

from importlib.util import find_spec
from math import prod
from pathlib import Path

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.image_size import Resized
from txexport.contracts.names import IMAGE_GRIDS, INPUT_IDS
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.page_texts import PageTexts
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import differs, equal, original

QUERIES = ("what was the total in 2023?", "", "two\nlines", "  Straße naïve  CAFÉ ", "a" * 40)
SIZES = ((37, 53), (53, 37), (224, 224), (225, 301), (500, 190), (97, 12))  # three if `quick`


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Compare token ids of queries, and token ids and pixels of pages. Raises SkipError."""
    if find_spec("PIL") is None:
        raise SkipError("Pillow is not installed")
    from PIL import Image

    if isinstance(checkpoint, Resized):
        raise SkipError("export changed the size of images, so that they are not the checkpoint's")
    assert manifest.image_token_id is not None
    ours, grid = PageTexts(BundleFiles(folder), manifest.image_token_id), manifest.spec["connector"]["grid"]
    merged, draw = manifest.spec["connector"]["merged"], np.random.default_rng(0)
    sizes = SIZES[: 3 if quick else None]
    with original("AutoProcessor", checkpoint, manifest.model_type, backend="pil") as theirs:
        for query in QUERIES:
            expected = np.asarray(theirs.process_queries([query])[INPUT_IDS])[0].tolist()
            [ids] = ours.ids([ours.query(query)])
            if ids != expected:
                differs("token ids", query, ids, expected)
        for size in sizes:
            image = Image.fromarray(draw.integers(0, 256, (*size, 3), dtype=np.uint8))
            inputs, theirs_of = ours.files.images.inputs([image]), theirs.process_images([image])
            for name, array in inputs.items():
                _compare(name, size, array, np.asarray(theirs_of[name]))
            vectors = prod(grid) if grid else int(inputs[IMAGE_GRIDS].prod()) // merged**2
            row = np.array(ours.ids([ours.page(vectors)]))
            _compare(INPUT_IDS, size, row, np.asarray(theirs_of[INPUT_IDS]))
    return [equal("queries", len(QUERIES)), equal("pages", len(sizes))]


def _compare(name: str, size: tuple[int, int], ours: np.ndarray, theirs: np.ndarray) -> None:
    """Raise AssertionError for an input of a page that is not the library's, which may have an axis more."""
    theirs = theirs.reshape(ours.shape) if theirs.size == ours.size else theirs
    if not np.array_equal(ours, theirs):
        differs(name, f"a page of {size[0]} x {size[1]}", ours, theirs)
