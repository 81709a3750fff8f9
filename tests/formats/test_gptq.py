"""GPTQ compared with plain loops: its choices, their limits, and smaller errors on the calibration inputs."""

import numpy as np
import pytest

from txexport.formats import CalibratedInt4, gptq, kept
from txexport.formats.int4 import BLOCKS, searched
from txexport.formats.number_format import packed, unpacked

SHAPES = [(3, 16), (5, 40), (7, 64), (9, 100), (4, 33)]
BLOCK = 32


def vectors(count: int, inputs: int, seed: int = 0) -> np.ndarray:
    """Correlated vectors, some of whose dimensions hardly vary."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((count, max(2, inputs // 3))) @ rng.standard_normal(
        (max(2, inputs // 3), inputs)
    )
    return (mixed + 0.3 * rng.standard_normal((count, inputs))).astype(np.float32) * (
        1 + np.arange(inputs) % 5
    )


def matrix(shape: tuple[int, int], seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def moments(x: np.ndarray) -> np.ndarray:
    return (x.T @ x).astype(np.float32)


def by_hand(rows: np.ndarray, h: np.ndarray, block: int) -> np.ndarray:
    """The algorithm of the paper in float64, number by number, each rounded to one of its two neighbours."""
    wide, damped = rows.astype(np.float64), h.astype(np.float64)
    for i in range(len(h)):
        damped[i, i] = damped[i, i] or 1.0
    damped += np.eye(len(h)) * 0.01 * np.trace(damped) / len(h)
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    _, zeros, scales = searched(rows, block)
    result = np.empty(rows.shape, int)
    for o, row in enumerate(wide):
        left = row.copy()
        for first in range(0, len(row), block):
            scale, zero = float(scales[o, first // block]), int(zeros[o, first // block])
            last = min(first + block, len(row))
            before = left.copy()
            for alone in (False, True):
                left[:] = before
                for i in range(first, last):
                    place = row[i] / scale + zero
                    low, high = (min(max(int(to(place)), 0), 15) for to in (np.floor, np.ceil))
                    aim = place if alone else left[i] / scale + zero
                    result[o, i] = min(max(int(np.rint(aim)), low), high)
                    error = (left[i] - (result[o, i] - zero) * scale) / upper[i, i]
                    left[i + 1 :] -= error * upper[i, i + 1 :]
                off = (result[o, first:last] - zero) * scale - row[first:last]
                span = max(row[first:last].max(), 0) - min(row[first:last].min(), 0)
                if np.sqrt(np.mean(off**2)) <= gptq.MOST_STEPS * span / 15:
                    break
    return result


def chosen(rows: np.ndarray, h: np.ndarray, block: int = BLOCK) -> np.ndarray:
    found = gptq.calibrated(rows, h, gptq.feedback(h), block)
    assert found is not None
    return found


def numbers(integers: np.ndarray, rows: np.ndarray, block: int = BLOCK) -> np.ndarray:
    """Dequantised integers, with scales and zero points of the search."""
    _, zeros, scales = searched(rows, block)
    spread = [np.repeat(one.astype(np.float32), block, axis=1)[:, : rows.shape[1]] for one in (zeros, scales)]
    return (integers - spread[0]) * spread[1]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_the_paper_s_algorithm(shape):
    """The integers of plain loops, except where float32 decides a tie."""
    rows, h = matrix(shape), moments(vectors(300, shape[1]))
    assert np.mean(chosen(rows, h) != by_hand(rows, h, BLOCK)) < 0.01


def test_a_block_that_would_be_far_off_is_rounded_alone(monkeypatch):
    """By loops too, with a limit that most blocks break."""
    rows, h = matrix((16, 64)), moments(vectors(300, 64))
    free = chosen(rows, h)
    monkeypatch.setattr(gptq, "MOST_STEPS", 0.36)
    held = chosen(rows, h)
    assert (free != held).any()
    assert np.mean(held != by_hand(rows, h, BLOCK)) < 0.01
    off = (numbers(held, rows) - rows).reshape(16, 2, BLOCK)
    steps = gptq.step(rows.reshape(16, 2, BLOCK).transpose(2, 0, 1).reshape(BLOCK, 32)).reshape(16, 2)
    assert (np.sqrt((off**2).mean(axis=2)) / steps).max() <= 0.361


@pytest.mark.parametrize("inputs", [64, 100, 33])
def test_what_was_seen_gains_and_what_was_not_too(inputs):
    """Outputs for correlated inputs, and for others of the same distribution, have smaller errors."""
    x = vectors(600, inputs)
    seen, other = x[:400], x[400:]
    rows = matrix((24, inputs))
    found, nearest = numbers(chosen(rows, moments(seen)), rows), kept(BLOCKS[BLOCK], [rows], rows.shape)
    for some, most in ((seen, 0.6), (other, 0.75)):
        ours, plain = (np.sum((some @ (one - rows).T) ** 2) for one in (found, nearest))
        assert ours < most * plain
        assert gptq.output_error(found - rows, moments(some)) == pytest.approx(ours, rel=1e-3)


def test_inputs_that_are_0_are_rounded_alone():
    """They are uncorrelated with the others, which are quantised as without them."""
    x = vectors(300, 64)
    x[:, 40:50] = 0
    rows = matrix((8, 64))
    found, (_, zeros, scales) = chosen(rows, moments(x)), searched(rows, BLOCK)
    alone = np.rint(rows[:, 40:50] / scales[:, 1:]) + zeros[:, 1:]
    assert (found[:, 40:50] == alone.clip(0, 15)).all()
    assert (found != np.rint(rows / np.repeat(scales, 32, 1)) + np.repeat(zeros, 32, 1)).any()


def test_nothing_is_chosen_of_no_vectors_at_all():
    assert (
        gptq.calibrated(matrix((8, 64)), np.zeros((64, 64), "f4"), gptq.feedback(np.zeros((64, 64))), 32)
        is None
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_moments_that_are_not_finite_are_refused(bad):
    h = moments(vectors(90, 40))
    h[3, 5] = h[5, 3] = bad
    with pytest.raises(np.linalg.LinAlgError):
        gptq.feedback(h)


@pytest.mark.parametrize("inputs", [1, 2, 63, 64, 65, 130, 200])
def test_the_factor_is_that_of_the_inverse(inputs):
    h = moments(vectors(3 * inputs, inputs))
    factor = gptq.feedback(h).astype(np.float64)
    assert not np.tril(factor, -1).any()
    damped = h + 0.01 * np.mean(np.diag(h)) * np.eye(inputs)
    assert factor.T @ factor @ damped == pytest.approx(np.eye(inputs), abs=2e-3)


def test_each_integer_is_one_of_two_and_scales_are_the_search_s():
    """Integers are rounded up or down, and clipped ones affect the later ones."""
    shape = (12, 100)
    rows = matrix(shape)
    given = np.random.default_rng(2).integers(0, 16, shape).astype(np.uint8)
    form = CalibratedInt4(BLOCK, lambda: packed(given.T))
    parts = dict(form.encode([rows[:5], rows[5:]], shape))
    plain = dict(BLOCKS[BLOCK].encode([rows], shape))
    assert (parts["scale"] == plain["scale"]).all()
    assert (parts["zero"] == plain["zero"]).all()
    integers = unpacked(parts[""], shape[::-1]).T.astype(int)
    zeros = np.repeat(unpacked(plain["zero"], (4, 12)).T.astype(int), BLOCK, axis=1)[:, :100]
    places = rows / np.repeat(plain["scale"].T, BLOCK, axis=1)[:, :100]
    low, high = ((to(places) + zeros).clip(0, 15) for to in (np.floor, np.ceil))
    assert ((integers == low) | (integers == high)).all()
    assert (integers == given.clip(low, high)).all()
    again = CalibratedInt4(BLOCK, lambda: parts[""])
    assert (kept(again, [rows], shape) == form.decode(parts, shape)).all()


def test_numbers_on_the_grid_have_no_choice():
    """Zeros stay zeros, and numbers rounded before stay unchanged, with any texts."""
    rows = matrix((8, 64))
    rows[np.abs(rows) < 0.4] = 0
    once = kept(BLOCKS[BLOCK], [rows], rows.shape)
    h = moments(vectors(300, 64))
    assert not numbers(chosen(rows, h), rows)[rows == 0].any()
    _, _, scales = searched(once, BLOCK)
    found = gptq._fed_back(once, gptq.feedback(h), *searched(once, BLOCK)[1:], BLOCK)
    assert np.abs(numbers(found, once) - once).max() <= 1e-4 * scales.max()


def test_what_may_be_left_is_a_rule_of_its_own():
    """The error that calibration may leave in a block passes; a zero point off by one, or more, does not."""
    rows, h = matrix((24, 64)), moments(vectors(300, 64))
    form = CalibratedInt4(BLOCK, lambda: packed(chosen(rows, h).T))
    found = kept(form, [rows], rows.shape)
    assert 0.5 < form.share(rows, found) <= 1
    assert BLOCKS[BLOCK].share(rows, found) < 1.3
    scales = np.repeat(searched(rows, BLOCK)[2], BLOCK, axis=1)
    for wrong in (
        found + scales,
        found - scales,
        np.zeros_like(found),
        found[:, ::-1],
        np.roll(found, 32, 1),
    ):
        assert form.share(rows, wrong) > 1.5
    one = found.copy()
    one[3, :BLOCK] += scales[3, :BLOCK]
    assert form.share(rows, one) > 1.3
