"""Masks by which tokens of an image or a prefix attend to each other, against loops over queries and keys."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.group_mask
import txmodels.group_mask
from helpers.twins import check

TOKEN = 7
ROWS = [
    [7, 7, 2, 7, 7, 7, 3, 4],  # two images
    [1, 2, 3, 4, 5, 6, 7, 7],  # one that ends the row
    [1, 2, 3, 4, 5, 6, 8, 9],  # none
    [7, 7, 7, 7, 7, 7, 7, 7],  # nothing else
]
IMAGES = [[0, 0, None, 1, 1, 1, None, None], [None] * 6 + [0, 0], [None] * 8, [0] * 8]


def groups_of(ids: torch.Tensor) -> torch.Tensor:
    twin = partial(txmodels.group_mask.image_groups, TOKEN)
    [groups] = check(twin, txgraphs.group_mask.image_groups(TOKEN), ids)
    return torch.from_numpy(groups)


def together(row: int, query: int, key: int) -> bool:
    """A query and a key of a row that are of one image."""
    return IMAGES[row][query] is not None and IMAGES[row][query] == IMAGES[row][key]


def test_adjacent_tokens_of_images_are_one_group():
    groups = groups_of(torch.tensor(ROWS))
    for row, numbers in enumerate(groups.tolist()):
        for query, number in enumerate(numbers):
            assert (number < 0) == (IMAGES[row][query] is None)
            for key, other in enumerate(numbers):
                assert together(row, query, key) == (number >= 0 and number == other)


def seen(window, bounded, earlier: bool, same: bool, distance: int) -> bool:
    """A query sees a key: an earlier one or one of its group, within the window."""
    near = window is None or distance < window
    return (earlier or same) and near if bounded else (earlier and near) or same


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("past", [0, 3])
def test_causal_mask(window, past, bounded):
    """With `past` tokens in a cache, and padding on the left of the second row."""
    ids = torch.tensor(ROWS)
    batch, length = ids.shape
    attention_mask = torch.ones(batch, past + length, dtype=torch.int64)
    attention_mask[1, :2] = 0
    order = (attention_mask.cumsum(1) - 1).clamp(min=0)
    twin = partial(txmodels.group_mask.grouped_causal_mask, window, bounded)
    graph = txgraphs.group_mask.grouped_causal_mask(window, bounded)
    [mask] = check(twin, graph, attention_mask, order, groups_of(ids))
    expected = np.zeros((batch, 1, length, past + length), bool)
    for row, _, query, key in np.ndindex(*expected.shape):
        new = key - past
        same = new >= 0 and together(row, query, new)
        distance = int(order[row, query + past] - order[row, key])
        sees = seen(window, bounded, new <= query, same, distance)
        expected[row, 0, query, key] = sees and bool(attention_mask[row, key])
    np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("last", [8, 1])
def test_cache_mask(window, last, bounded):
    """Of all new tokens, and of the last alone, over caches filled to different lengths."""
    ids, filled, slots = torch.tensor(ROWS), torch.tensor([0, 3, 1, 2]), 13
    batch, length = ids.shape
    groups, positions = groups_of(ids), (filled[:, None] + torch.arange(length))[:, -last:]
    past_k = torch.zeros(batch, 2, slots, 4)
    twin = partial(txmodels.group_mask.grouped_cache_mask, window, bounded)
    graph = txgraphs.group_mask.grouped_cache_mask(window, bounded)
    [mask] = check(twin, graph, positions, past_k, groups[:, -last:], groups, filled)
    expected = np.zeros((batch, 1, last, slots), bool)
    for row, _, number, slot in np.ndindex(*expected.shape):
        query, new = number + length - last, slot - int(filled[row])
        same = 0 <= new < length and together(row, query, new)
        expected[row, 0, number, slot] = seen(window, bounded, new <= query, same, query - new)
    np.testing.assert_array_equal(mask, expected)


def test_the_first_tokens_of_a_row_are_its_prefix():
    positions = torch.tensor([[0, 1, 2, 3], [5, 6, 7, 8], [-1, -1, 0, 1]])
    lengths = torch.tensor([3, 4, 2])
    [groups] = check(txmodels.group_mask.prefix_groups, txgraphs.group_mask.prefix_groups, positions, lengths)
    assert groups.tolist() == [[0, 0, 0, -1], [-1, -1, -1, -1], [0, 0, 0, 0]]


@pytest.mark.parametrize("past", [0, 2])
def test_a_row_without_a_past_reads_its_prefix(past):
    """Also where other rows of the batch have a past."""
    mask = torch.ones(3, past + 4, dtype=torch.int64)
    mask[1, : past + 1] = 0
    ids = torch.zeros(3, 4, dtype=torch.int64)
    [lengths] = check(txmodels.group_mask.first_step, txgraphs.group_mask.first_step, mask, ids)
    assert lengths.tolist() == ([4, 4, 4] if past == 0 else [0, 6, 0])
