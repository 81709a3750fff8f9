"""Many texts of different lengths, and assertions on their results."""

import os
import signal
from pathlib import Path

import numpy as np

from txexport.batch import Predictor

NAMES = ["np.sum", "os.path.join", "the cat", "dict.items", "json.dumps(x)", "a mat"]
TOLERANCE = 1e-5  # a batch of other rows sums in another order


def many(count: int) -> list[str]:
    """That number of texts, all different."""
    rng = np.random.default_rng(7)
    picks = rng.integers(0, len(NAMES), (count, 6))
    lengths = rng.integers(1, 7, count)
    return [
        f"{i}: {' and '.join(NAMES[name] for name in row[:length])}"
        for i, (row, length) in enumerate(zip(picks, lengths, strict=True))
    ]


def assert_same_vectors(found, expected) -> None:
    """Each row's vector, in order."""
    np.testing.assert_allclose(np.stack(found), expected, rtol=0, atol=TOLERANCE)


def assert_same_entities(found, expected) -> None:
    """Assert equal entities for each row: words and offsets equal, scores within the tolerance."""
    assert len(found) == len(expected)
    assert sum(map(len, expected)) > len(expected) / 2
    for ours, theirs in zip(found, expected, strict=True):
        assert [plain(one) for one in ours] == [plain(one) for one in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert abs(one["score"] - other["score"]) < TOLERANCE


def plain(entity: dict) -> dict:
    return {name: value for name, value in entity.items() if name != "score"}


def mortal(mark: Path) -> type[Predictor]:
    """A Predictor whose process is killed at its second batch, once: it leaves `mark`."""

    class Mortal(Predictor):
        calls = 0

        def __call__(self, batch):
            Mortal.calls += 1
            if Mortal.calls == 2 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    return Mortal
