"""Places of nearly equal scores, which take the order of the graph."""

import itertools

import numpy as np
import pytest
import torch

from txexport.verification.cases.ranks import in_ranks

PLACES, QUERIES = 12, 8
BASE = np.linspace(8.0, 1.0, PLACES)


class Ranked:
    """Queries whose outputs depend on the place and on the rank, and a little on all others."""

    def __init__(self, scores):
        self.scores, self.runs = torch.tensor(scores), 0

    def encode(self):
        self.runs += 1
        return self.of(torch.topk(self.scores, QUERIES, dim=1)[1])

    def of(self, index):
        contents = torch.randn(QUERIES, 3, generator=torch.Generator().manual_seed(0))
        vectors = torch.sin(1.0 + index[..., None] * contents)  # (B, Q, 3)
        shared = 1e-4 * torch.cumsum(index, 1)[..., None]
        pad = torch.full_like(vectors[..., :1], -torch.inf)
        return {"logits": torch.cat([vectors + shared, pad], 2).numpy(), "pred_boxes": (vectors / 2).numpy()}


def ranks(*exchanged):
    """Indices (B,Q) of places in the order of scores, some of which are exchanged."""
    index = torch.arange(PLACES).tile(2, 1)
    for row, one, other in exchanged:
        index[row, [one, other]] = index[row, [other, one]]
    return index[:, :QUERIES]


def scores(*near):
    """Scores (B,P) that fall with the index, by a rounding after each of `near`."""
    every = np.tile(BASE, (2, 1))
    for row, one in near:
        every[row, one + 1] = every[row, one] * (1 - 2e-6)
    return every


@pytest.mark.parametrize("index", [ranks(), ranks((0, 2, 3)), ranks((0, 2, 3), (1, 5, 6), (1, 0, 1))])
def test_pairs(index):
    model = Ranked(scores((0, 2), (1, 5), (1, 0)))
    result = model.of(index)
    expected = in_ranks(model.encode, result, QUERIES)
    for name, array in result.items():
        assert np.array_equal(array, expected[name])
    assert model.runs == (1 if (index == ranks()).all() else 2)


@pytest.mark.parametrize("order", [*itertools.permutations([2, 3, 4])])
def test_three(order):
    model, index = Ranked(scores((0, 2), (0, 3))), ranks()
    index[0, 2:5] = torch.tensor(order)
    expected = in_ranks(model.encode, model.of(index), QUERIES)
    assert np.array_equal(expected["logits"], model.of(index)["logits"])


def test_a_place_that_is_left_out():
    model, index = Ranked(scores((1, QUERIES - 1))), ranks((1, QUERIES - 1, QUERIES))
    expected = in_ranks(model.encode, model.of(index), QUERIES)
    assert np.array_equal(expected["logits"], model.of(index)["logits"])


def test_a_wrong_order_stays_wrong():
    """Scores differ by more than rounding, or a query is wrong for another reason."""
    model = Ranked(scores((1, 5)))
    result = model.of(ranks((0, 2, 3)))
    assert np.array_equal(in_ranks(model.encode, result, QUERIES)["logits"], model.of(ranks())["logits"])
    result = model.of(ranks())
    result["pred_boxes"][0, 4] += 1
    assert np.array_equal(in_ranks(model.encode, result, QUERIES)["logits"], model.of(ranks())["logits"])
    assert model.runs == 2


def test_a_reference_without_scores():
    outputs = {"logits": np.zeros((2, QUERIES, 3)), "pred_boxes": np.ones((2, QUERIES, 4))}
    expected = in_ranks(lambda: outputs, {name: array + 1 for name, array in outputs.items()}, QUERIES)
    assert expected is outputs
