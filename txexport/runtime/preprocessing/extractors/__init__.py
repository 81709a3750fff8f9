"""Feature extractors: one file for each class of transformers, found by file name.

A file's EXTRACTOR turns sounds into the input of a graph.
"""

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np

from txexport.errors import UnsupportedError, shown
from txexport.runtime.preprocessing.audio import Source
from txexport.runtime.preprocessing.preprocessor import extractor_settings


class Extractor(Protocol):
    """A feature extractor at `rate` Hz, which makes the graph's input `port` of `rank` dimensions.

    The input has a sample or a frame for every `hop` samples of a sound, which has `least` samples or more.

    One that is `masked` also makes the attention mask of the samples.
    """

    kind: str  # the class in transformers
    port: str
    rank: int
    masked: bool
    rate: int
    hop: int
    least: int

    def __init__(self, folder: Path): ...

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """The input (B,...) float32 of one sound or several.

        A sound is the path of a sound file, or an array (N,) of floats between -1 and 1 at `rate` Hz, by
        default the extractor's. Other rates are resampled. Raises InputError for an invalid sound and, unless
        `truncate` cuts it, for one that is too long; with None, the message does not name `truncate`.
        """

    def inputs(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> dict[str, np.ndarray]:
        """The features of sounds by their `port`, and where they are `masked` attention_mask (B,N) int64."""


@cache
def _extractors() -> dict[str, type[Extractor]]:
    """The classes by their names in transformers."""
    modules = [import_module(f"{__name__}.{entry.name}") for entry in pkgutil.iter_modules(__path__)]
    return {module.EXTRACTOR.kind: module.EXTRACTOR for module in modules}


def read_extractor(folder: Path) -> Extractor:
    """The feature extractor of a checkpoint's preprocessor file.

    Raises BundleError for settings that are missing or damaged, UnsupportedError for another class.
    """
    kind = extractor_settings(folder)["feature_extractor_type"]
    if not isinstance(kind, str) or kind not in _extractors():
        name, expected = kind if isinstance(kind, str) else shown(kind), ", ".join(_extractors())
        raise UnsupportedError(f"feature extractor {name} is not supported; expected one of {expected}")
    return _extractors()[kind](folder)
