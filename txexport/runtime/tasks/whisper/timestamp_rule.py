"""The rule by which Whisper writes timestamp tokens (Radford et al. 2022, 2.3 and 3.8)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from txexport.runtime.generation.penalties import Step


@dataclass(frozen=True)
class TimestampRule:
    """A score processor as transformers' WhisperTimeStampLogitsProcessor.

    Timestamp tokens come in pairs, never decrease, and begin the text; a timestamp is chosen where all of
    them together are likelier than any other token. `no_timestamps` is the token before the first timestamp,
    `end` the end of sequence, `max_initial` the latest timestamp that may begin, and `timed` has for each
    row whether it gets timestamps.
    """

    no_timestamps: int
    end: int
    max_initial: int | None
    timed: Sequence[bool]

    def __call__(self, step: Step, scores: np.ndarray) -> np.ndarray:
        """Scores (R,V) with the tokens that may not come next at -inf."""
        scores = scores.copy()
        rows = zip(scores, step.rows, step.prompts, step.origins, strict=True)
        for row, tokens, prompt, origin in rows:
            if self.timed[origin]:
                self._mask(row, tokens[prompt:])
        return scores

    def _mask(self, scores: np.ndarray, new: Sequence[int] | np.ndarray) -> None:
        """Mask the scores (V) of a row with these new tokens."""
        first = self.no_timestamps + 1
        scores[self.no_timestamps] = -np.inf
        after_time = len(new) > 0 and new[-1] >= first
        after_pair = len(new) < 2 or new[-2] >= first
        if after_time and after_pair:
            scores[first:] = -np.inf
        elif after_time:
            scores[: self.end] = -np.inf
        latest = next((token for token in reversed(new) if token >= first), None)
        if latest is not None:  # only the second of a pair may repeat it
            scores[first : latest + (0 if after_time and not after_pair else 1)] = -np.inf
        if len(new) == 0:
            scores[:first] = -np.inf
            if self.max_initial is not None:
                scores[first + self.max_initial + 1 :] = -np.inf
        times, highest = scores[first:], scores[:first].max()
        peak = times.max()
        if peak > -np.inf and peak + np.log(np.exp(times - peak).sum()) > highest:
            scores[:first] = -np.inf
