"""Options, images and bundles of tests of models that answer questions about images."""

from collections.abc import Callable
from pathlib import Path

from helpers.pictured import picture
from txexport.exporter import export

CHANGING = {"max_new_tokens": 9, "no_repeat_ngram_size": 1}  # or the tiny model repeats a token
BEAMS = {"max_new_tokens": 7, "num_beams": 3, "no_repeat_ngram_size": 1}
IMAGES = [picture(53, 37), picture(24, 24, 1), picture(17, 90, 2)]


def exported(root: Path, save: Callable[[Path], None]) -> Path:
    """A folder with the checkpoint that `save` writes, and its bundles in both kinds of cache."""
    save(root / "checkpoint")
    export(root / "checkpoint", root / "bundle", only="native")
    export(root / "checkpoint", root / "dynamic", only="native", cache="dynamic")
    return root
