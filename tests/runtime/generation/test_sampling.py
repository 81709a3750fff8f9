"""Limits of sampling, which are transformers', and the draw, which follows the probabilities."""

import math

import numpy as np
import pytest
import torch
from transformers.generation import logits_process as hf

from txexport.errors import InputError
from txexport.runtime.generation import sampling

ROWS, VOCAB = 6, 200


def scores_of(seed: int) -> np.ndarray:
    """Rows from almost flat to very sharp, in turn with a third of the tokens ruled out."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, (ROWS, VOCAB)) * np.array([[0.1], [1], [2], [4], [8], [30]])
    scores[::2, rng.permutation(VOCAB)[: VOCAB // 3]] = -np.inf
    return scores.astype(np.float32)


LIMITS = [
    *((sampling.temperature, (t,), hf.TemperatureLogitsWarper(t)) for t in (0.3, 1.7)),
    *((sampling.top_h, (h,), hf.TopHLogitsWarper(h)) for h in (0.2, 0.6, 0.9)),
    *((sampling.top_k, (k,), hf.TopKLogitsWarper(k)) for k in (1, 2, 50, 500)),
    *(
        (ours, (value, keep), theirs(value, min_tokens_to_keep=keep))
        for keep in (1, 3)
        for ours, theirs, values in (
            (sampling.top_p, hf.TopPLogitsWarper, (1e-6, 0.1, 0.5, 0.9, 0.999)),
            (sampling.min_p, hf.MinPLogitsWarper, (0.001, 0.1, 0.9, 1.0)),
            (sampling.typical_p, hf.TypicalLogitsWarper, (1e-6, 0.2, 0.5, 0.95)),
            (sampling.epsilon_cutoff, hf.EpsilonLogitsWarper, (0.0003, 0.01, 0.5)),
            (sampling.eta_cutoff, hf.EtaLogitsWarper, (0.0003, 0.01, 0.5)),
        )
        for value in values
    ),
]


@pytest.mark.parametrize(
    ("limit", "arguments", "theirs"), LIMITS, ids=[f"{row[0].__name__}{row[1]}" for row in LIMITS]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_limit_is_that_of_transformers(limit, arguments, theirs, seed):
    scores = scores_of(seed)
    before = scores.copy()
    ours = limit(scores, *arguments)
    expected = theirs(None, torch.tensor(scores)).numpy()
    assert np.array_equal(scores, before), "changed what it was given"
    assert ours.dtype == np.float32
    assert np.array_equal(np.isneginf(ours), np.isneginf(expected))
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


def left(scores: list[float], limit, *arguments) -> list[int]:
    return np.flatnonzero(limit(np.array([scores], np.float32), *arguments)[0] > -np.inf).tolist()


def test_ties():
    assert left([1, 2, 2, 2, 0], sampling.top_k, 2) == [1, 2, 3]
    assert left([1, 2, 2, 2, 0], sampling.top_k, 4) == [0, 1, 2, 3]
    assert len(left([0] * 8, sampling.top_p, 0.5, 1)) == 4
    assert left([2, 1, 2, 1], sampling.epsilon_cutoff, 0.9, 1) == [0, 2]
    assert left([2, 1, 2, 1], sampling.min_p, 1.0, 1) == [0, 2]
    assert len(left([0] * 4, sampling.top_h, 0.5)) == 2
    p = sampling.softmax(np.array([[1, 0, 2]], np.float32))[0]
    assert left([1, 0, 2], sampling.epsilon_cutoff, float(p[0]), 1) == [0, 2]


def test_top_h_leaves_out_what_is_impossible():
    assert left([0, -200, -300], sampling.top_h, 0.5) == [0]


def test_edges_of_top_p():
    halves = np.log([0.5, 0.25, 0.125, 0.125]).tolist()
    assert left(halves, sampling.top_p, 1e-9, 1) == [0]
    assert left(halves, sampling.top_p, 0.5, 1) == [0]
    assert left(halves, sampling.top_p, 0.500001, 1) == [0, 1]
    assert left(halves, sampling.top_p, 0.75, 1) == [0, 1]
    assert left(halves, sampling.top_p, 1e-9, 3) in ([0, 1, 2], [0, 1, 3])
    assert left([100.0, 0.0, 1.0], sampling.top_p, 0.9, 2) == [0, 2]
    assert left([0.0, -math.inf, -math.inf], sampling.top_p, 0.999, 1) == [0]


def test_top_p_of_many_tokens_is_exact():
    """Only tokens that may be left are sorted; what is left must be what sorting all would leave."""
    scores = np.random.default_rng(0).normal(0, 4, (2, 50_000)).astype(np.float32)
    for share in (0.1, 0.6, 0.9, 0.99):
        ours = sampling.top_p(scores, share, 1)
        for row, found in zip(scores.astype(np.float64), ours, strict=True):
            p = np.exp(row - row.max())
            falling = np.argsort(-row)
            count = int((np.cumsum(p[falling] / p.sum()) < share).sum()) + 1
            assert abs(int(np.isfinite(found).sum()) - count) <= 1
            assert np.isfinite(found[falling[: count - 1]]).all()


def test_log_softmax():
    scores = scores_of(0)
    expected = torch.tensor(scores).log_softmax(-1).numpy()
    np.testing.assert_allclose(sampling.log_softmax(scores), expected, rtol=1e-6, atol=1e-6)


# Chi-square of 9 degrees of freedom: a right sampler is above it with one seed in a million.
BOUND = 44.82


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_draws_follow_the_probabilities(scale):
    row = np.random.default_rng(1).normal(0, scale, 13).astype(np.float32)
    row[[2, 5, 11]] = -np.inf
    p = np.exp(row.astype(np.float64))
    p /= p.sum()
    draws = sampling.sample(np.tile(row, (40_000, 1)), [np.random.default_rng(2)] * 40_000)
    counts = np.bincount(draws, minlength=13)
    assert counts[[2, 5, 11]].sum() == 0
    likely = p > 0
    statistic = ((counts[likely] - 40_000 * p[likely]) ** 2 / (40_000 * p[likely])).sum()
    assert statistic < BOUND
    assert (counts[likely] > 0).all()


def test_every_row_is_drawn_from_its_own_scores():
    rows = np.full((5, 5), -np.inf, np.float32)
    rows[np.arange(5), [3, 0, 4, 2, 1]] = [-50, 0, 900, 3e38, -3e38]
    assert sampling.sample(rows, [np.random.default_rng(0)] * 5).tolist() == [3, 0, 4, 2, 1]


class Fixed:
    """A generator that gives one number."""

    def __init__(self, number: float):
        self.number = number

    def random(self) -> float:
        return self.number


def test_ends_of_the_draw():
    scores = np.array([[-np.inf, 0.0, -np.inf, 0.0, -np.inf], [-1e30, 0.0, 0.0, -1e30, -1e30]], np.float32)
    assert sampling.sample(scores, [Fixed(0.0)] * 2).tolist() == [1, 1]
    assert sampling.sample(scores, [Fixed(np.nextafter(0.5, 0))] * 2).tolist() == [1, 1]
    assert sampling.sample(scores, [Fixed(0.5)] * 2).tolist() == [3, 2]
    assert sampling.sample(scores, [Fixed(np.nextafter(1.0, 0))] * 2).tolist() == [3, 2]


def test_a_seed_gives_the_same_tokens():
    scores = scores_of(0)
    first, again = (sampling.sample(scores, [np.random.default_rng(5)] * len(scores)) for _ in range(2))
    assert np.array_equal(first, again)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ([-math.inf, -math.inf], "row 1 has no token left to draw"),
        ([math.nan, 0.0], "row 1 has a score that is not finite"),
        ([math.inf, 0.0], "row 1 has a score that is not finite"),
    ],
)
def test_rows_that_cannot_be_drawn_from(row, said):
    scores = np.array([[0.0, 1.0], row], np.float32)
    with pytest.raises(InputError, match=f"{said}; choose remove_invalid_values=True or fewer restrictions"):
        sampling.sample(scores, [np.random.default_rng(0)] * 2)
