"""Losses of a number format on the user's texts, measured as compare-dtypes does."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from txexport.bundle import check_runs
from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.dtype_comparison.accuracy import (
    CHANGE,
    COSINE,
    ENTITIES,
    GREEDY,
    OVERLAP,
    SAME,
    accuracy_of,
    check_task,
)
from txexport.errors import BundleError, InputError
from txexport.exporter import export
from txexport.formats import DEFAULT
from txexport.runtime import Model, load
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import Item
from txexport.runtime.preprocessing.text_file import read
from txexport.verification import losses
from txexport.verification.checks import SkipError, TensorCheck

NEW_TOKENS = 32
SHARES = {  # by measure of compare-dtypes: the budget of its difference from 1
    COSINE: losses.COSINE,
    OVERLAP: losses.NEIGHBOURS,
    SAME: losses.ANSWERS,
    ENTITIES: losses.ANSWERS,
    GREEDY: losses.TOKENS,
}


class TextLosses:
    """The answers of a bundle's dtypes against its float32, or against the checkpoint's if it has none.

    Raises InputError for texts or a task that cannot be compared, OSError for a file that cannot be read.
    """

    def __init__(self, folder: Path, manifest: Manifest, checkpoint: Checkpoint, file: Path):
        self.folder, self.manifest, self.checkpoint = folder, manifest, checkpoint
        self.items = read(file)
        check_task(manifest, self.items)

    def lost(self, loaded: LoadedBundle, budgets: Mapping[str, float]) -> list[TensorCheck]:
        """One check for each measure, whose error is the share lost.

        Raises SkipError for texts that are too long, and for graphs that txexport's runtime does not run.
        """
        try:
            check_runs(self.folder, loaded.manifest)
        except BundleError as error:
            raise SkipError(str(error)) from error
        try:
            with self._float32(loaded.device) as float32:
                _check_lengths(float32, self.items)
                models = {DEFAULT: float32, loaded.manifest.dtype: Model(loaded)}
                measured = accuracy_of(models, self.items, NEW_TOKENS)[loaded.manifest.dtype]
        except InputError as error:
            raise SkipError(str(error)) from error
        shares = {losses.PERPLEXITY: measured[CHANGE]} if CHANGE in measured else {}
        known = [measure for measure in SHARES if measure in measured and SHARES[measure] not in shares]
        generates = GREEDY in measured  # of a generator, whose answers are compared by tokens
        shares |= {SHARES[name]: 1 - measured[name] for name in known if not (generates and name == SAME)}
        return [
            TensorCheck(name, len(self.items), _share(number), budgets[name])
            for name, number in shares.items()
        ]

    @contextmanager
    def _float32(self, device: str) -> Iterator[Model]:
        if DEFAULT in self.manifest.formats:
            with load(self.folder, dtype=DEFAULT, device=device, check=False) as model:
                yield model
            return
        with tempfile.TemporaryDirectory(prefix="txexport-") as temporary:
            out = Path(temporary) / DEFAULT
            export(self.checkpoint.folder, out, task=self.manifest.task, only="native", dtype=DEFAULT)
            with load(out, device=device) as model:
                yield model


def _check_lengths(model: Model, items: list[Item]) -> None:
    """Raise SkipError for a text that is too long for a generator to score."""
    limits = [limit for limit in model.manifest.limits.values() if limit is not None]
    if not (model.manifest.cache and limits):
        return
    longest = max(len(encoding.ids) for encoding in model.text.encode(items))
    if longest > min(limits):
        raise SkipError(f"a text has {longest} tokens, and the model takes {min(limits)}; cut it")


def _share(number: float) -> float:
    """The share lost, 0 for a gain; infinite for NaN."""
    return max(0.0, number) if np.isfinite(number) else float("inf")
