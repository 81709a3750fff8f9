"""Candidates of a beam search: the most likely continuations, without computing all their scores."""

import numpy as np
import pytest

from txexport.runtime.generation.candidates import likeliest, top
from txexport.runtime.generation.sampling import log_softmax


@pytest.mark.parametrize("words", [100, 256, 257, 5003], ids=str)
@pytest.mark.parametrize("step", [0, 0.125], ids=["all differ", "ties"])
@pytest.mark.parametrize("begun", [True, False], ids=["begun", "first step"])
def test_likeliest(words: int, step: float, begun: bool):
    """Places and scores are those of a sort of all, to the last bit; of equal ones the first come first."""
    rng = np.random.default_rng(words)
    for sources, beams, count in [(1, 1, 2), (3, 4, 8), (2, 5, 15)]:
        logits = (3 * rng.standard_normal((sources, beams, words))).astype(np.float32)
        if step:
            logits = (np.round(logits / step) * step).astype(np.float32)
        before = -np.abs(rng.standard_normal((sources, beams))).astype(np.float32)
        if not begun:
            before[:, 0], before[:, 1:] = 0, -1e9
        sums = (log_softmax(logits) + before[:, :, None]).reshape(sources, -1)
        expected = np.argsort(-sums, axis=1, kind="stable")[:, :count]
        places, scores = likeliest(logits, before, count)
        assert np.array_equal(places, expected)
        assert np.array_equal(scores, np.take_along_axis(sums, expected, axis=1))
        assert np.array_equal(top(sums, count), expected)


def test_top_of_what_is_ruled_out():
    """Where fewer words are left than are asked for, the first of the others follow."""
    scores = np.full((2, 1000), -np.inf, np.float32)
    scores[0, 999], scores[1, [3, 700]] = 1, [1, 2]
    assert top(scores, 4).tolist() == [[999, 0, 1, 2], [700, 3, 0, 1]]
