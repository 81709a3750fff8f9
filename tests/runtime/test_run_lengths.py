"""A user's COCO tools misread masks if one of these fails."""

import numpy as np
import pytest

from txexport.runtime.run_lengths import run_lengths


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1), (5, 8), (16, 3)])
def test_runs_give_the_mask_again(shape, share):
    mask = np.random.default_rng(5).random(shape) < share
    runs = run_lengths(mask)
    assert runs["size"] == list(shape)
    assert all(count > 0 for count in runs["counts"][1:])
    pixels = np.concatenate([np.full(count, index % 2) for index, count in enumerate(runs["counts"])])
    assert np.array_equal(pixels.reshape(shape[::-1]).T, mask)


def test_runs_go_down_the_columns():
    mask = np.array([[True, False], [True, False], [False, True]])
    assert run_lengths(mask) == {"size": [3, 2], "counts": [0, 2, 3, 1]}


def test_a_mask_without_pixels_has_no_runs():
    assert run_lengths(np.zeros((0, 4), bool)) == {"size": [0, 4], "counts": []}
