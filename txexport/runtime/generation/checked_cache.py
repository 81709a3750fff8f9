"""A cache that checks logits for NaN and infinity, and reports finished rows."""

from dataclasses import dataclass

import numpy as np

from txexport.contracts.names import LOGITS
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache
from txexport.runtime.generation.prefixes import FinishedRowRecorder
from txexport.runtime.session import finite


@dataclass(frozen=True)
class CheckedCache:
    """`cache` whose logits are checked unless `allow_invalid`; `recorder` receives the selected rows."""

    cache: StaticCache | DynamicCache
    allow_invalid: bool
    recorder: FinishedRowRecorder | None = None

    @property
    def lengths(self) -> np.ndarray:
        """See drafts.Rewindable."""
        return self.cache.lengths

    @property
    def ragged(self) -> bool:
        """See drafts.Rewindable."""
        return self.cache.ragged

    def step(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """See search.Decoder."""
        return self._checked(self.cache.step(input_ids, counts))

    def read(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """See drafts.Rewindable."""
        return self._checked(self.cache.read(input_ids, counts))

    def _checked(self, logits: np.ndarray) -> np.ndarray:
        if not self.allow_invalid:
            finite({LOGITS: logits})
        return logits

    def rewind(self, lengths: np.ndarray) -> None:
        """See drafts.Rewindable."""
        self.cache.rewind(lengths)

    def select(self, rows: np.ndarray, copies: int = 1) -> None:
        """See search.Decoder."""
        if self.recorder is not None:
            self.recorder.select(rows)
        self.cache.select(rows, copies)

    def reorder(self, rows: np.ndarray) -> None:
        """See search.Decoder."""
        self.cache.reorder(rows)
