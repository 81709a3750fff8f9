"""The decision to decode a window again or to skip it (Radford et al. 2022, 3.8)."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto


class Verdict(Enum):
    """The use of a window's tokens."""

    KEEP = auto()
    AGAIN = auto()  # decode at the next temperature
    SKIP = auto()  # no speech


@dataclass(frozen=True)
class Thresholds:
    """Limits beyond which a window is decoded again or skipped; None switches one off.

    `compression_ratio` is the highest ratio of bytes to compressed bytes, `log_prob` the lowest mean
    log-probability of a token, and `no_speech` the probability of no speech above which a window of a lower
    mean is skipped.
    """

    compression_ratio: float | None = None
    log_prob: float | None = None
    no_speech: float | None = None

    def verdict(
        self, tokens: Sequence[int], vocab_size: int, log_prob: float | None, no_speech: float | None
    ) -> Verdict:
        """The verdict on tokens by their mean log-probability and the window's probability of no speech."""
        unlikely = self.log_prob is not None and log_prob is not None and log_prob < self.log_prob
        if unlikely and self.no_speech is not None and no_speech is not None and no_speech > self.no_speech:
            return Verdict.SKIP
        limit = self.compression_ratio
        if unlikely or (limit is not None and compression_ratio(tokens, vocab_size) > limit):
            return Verdict.AGAIN
        return Verdict.KEEP


def compression_ratio(tokens: Sequence[int], vocab_size: int) -> float:
    """The bytes of token ids over their bytes compressed by zlib; repetition makes it high."""
    width = int(math.log2(vocab_size) / 8) + 1
    octets = b"".join(token.to_bytes(width, "little") for token in tokens)
    return len(octets) / len(zlib.compress(octets))
