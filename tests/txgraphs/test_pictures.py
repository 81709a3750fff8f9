"""Vectors of images for a decoder, and their places among its tokens: both halves on the same numbers."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import txgraphs.connector
import txgraphs.real_vectors
import txgraphs.splice
from helpers.twins import check, integers, random, seeded
from txmodels.connector import Connector, neighbours
from txmodels.real_vectors import real_vectors
from txmodels.splice import spliced

from txexport.errors import SpecError
from txexport.parts.architectures._connector import connector
from txexport.spec import ConnectorSpec, NormSpec
from txexport.spec.enums import Activation, NormKind

B, W, SIZE, TOKEN = 3, 8, 10, 7
GRID = (6, 4)


def spec_of(**changes) -> ConnectorSpec:
    return ConnectorSpec(W, SIZE, **{"grid": GRID} | changes)


TWO = {"intermediate_size": 12, "activation": Activation.GELU}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"bias": False},
        TWO,
        TWO | {"activation": Activation.RELU, "bias": False},
        TWO | {"skipped": 1},
        {"skipped": 3},
        {"merged": 2},
        {"merged": 2, "pooled": True, "norm": NormSpec(W, 1e-6, kind=NormKind.RMS), "bias": False},
        TWO | {"merged": 2, "norm": NormSpec(4 * W, 1e-5)},
        {"norm": NormSpec(W, 1e-6, NormKind.RMS)},
        TWO | {"skipped": 2, "merged": 2, "norm": NormSpec(4 * W, 1e-5, NormKind.RMS), "bias": False},
        TWO | {"merged": 2, "norm": NormSpec(W, 1e-6), "normed_first": True},
        TWO | {"merged": 2, "norm": NormSpec(W, 1e-6, NormKind.RMS), "normed_first": True, "grid": None},
        {"merged": 3, "norm": NormSpec(9 * W, 1e-6), "grid": None},
        {"consecutive": 2, "pooled": True, "norm": NormSpec(W, 1e-5), "grid": None},
        TWO | {"consecutive": 4, "bias": False, "grid": None},
    ],
    ids=str,
)
def test_connector(changes):
    spec = spec_of(**changes)
    module = Connector(spec)
    shapes = {name: tuple(value.shape) for name, value in module.named_parameters()}
    assert shapes == connector(spec)
    length = GRID[0] * GRID[1] if spec.grid else 3 * spec.joined
    x = random(B, spec.skipped + length, W)
    [features] = check(module, partial(txgraphs.connector.connector, spec), x)
    assert features.shape == (B, spec.vectors if spec.grid else 3, SIZE)


def test_neighbours_are_those_of_a_square():
    """As pixel_unshuffle has them, but with the channels of each pixel side by side."""
    x = random(B, GRID[0] * GRID[1], W)
    apart = F.pixel_unshuffle(x.transpose(1, 2).unflatten(2, GRID), 2)  # (B, W*4, R/2, C/2)
    expected = apart.unflatten(1, (W, 4)).permute(0, 3, 4, 2, 1).flatten(3).flatten(1, 2)
    assert torch.equal(neighbours(GRID, 2, x), expected)


def test_vectors_that_are_left_out_do_not_count():
    module = seeded(Connector(spec_of(skipped=2)))
    x = random(B, 2 + GRID[0] * GRID[1], W)
    other = x.clone()
    other[:, :2] += 1
    with torch.no_grad():
        assert torch.equal(module(x), module(other))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation": Activation.GELU}, "intermediate_size is None with activation gelu; expected both"),
        ({"intermediate_size": 4}, "expected both, or neither"),
        ({"merged": 4}, r"the grid \(6, 4\); expected 0 or more, and multiples of 4"),
        ({"skipped": -1}, "skipped is -1"),
        ({"merged": 2, "norm": NormSpec(W, 1e-5)}, "the norm is 8 wide, expected 32"),
        ({"merged": 0}, "merged"),
        ({"consecutive": 0}, "consecutive"),
        ({"consecutive": 2}, r"consecutive is 2 with the grid \(6, 4\)"),
        ({"consecutive": 2, "grid": None, "skipped": 1}, "1 skipped"),
        ({"consecutive": 2, "grid": None, "merged": 2}, "2 x 2 neighbours"),
        (
            {"merged": 2, "norm": NormSpec(4 * W, 1e-5), "normed_first": True},
            "the norm is 32 wide, expected 8",
        ),
    ],
    ids=str,
)
def test_a_connector_that_cannot_be_is_refused(changes, message):
    with pytest.raises(SpecError, match=message):
        spec_of(**changes)


def ids_with(*counts: int, length: int = 9) -> torch.Tensor:
    """Token ids (B,S) with that number of image tokens at the end of each row."""
    ids = integers(TOKEN, len(counts), length)  # all below TOKEN
    for row, count in enumerate(counts):
        if count:
            ids[row, -count:] = TOKEN
    return ids


@pytest.mark.parametrize(
    ("counts", "features"),
    [
        ((4, 0, 2), 6),
        ((0, 0, 0), 0),
        ((9, 9, 9), 27),
        ((0, 0, 1), 1),
        ((2, 1, 3), 0),
        ((2, 1, 3), 4),
        ((5,), 5),
    ],
    ids=str,
)
def test_splice(counts, features):
    """All places filled, none, and the first of them: the rest keep the vectors of their tokens."""
    ids, x, vectors = ids_with(*counts), random(len(counts), 9, W), random(features, W)
    expected = x.clone()
    filled = torch.nonzero(ids == TOKEN)[:features]
    expected[filled[:, 0], filled[:, 1]] = vectors
    [y] = check(partial(spliced, TOKEN), txgraphs.splice.spliced(TOKEN), x, ids, vectors)
    assert np.array_equal(y, expected.numpy())


def test_splice_is_the_masked_scatter_of_the_library():
    ids, x, vectors = ids_with(4, 0, 2), random(3, 9, W), random(6, W)
    mask = (ids == TOKEN)[:, :, None].expand_as(x)
    assert torch.equal(spliced(TOKEN, x, ids, vectors), x.masked_scatter(mask, vectors))


def test_another_token_is_another_function():
    x, vectors = random(2, 9, W), random(3, W)
    ids = ids_with(1, 2)
    check(partial(spliced, 3), txgraphs.splice.spliced(3), x, ids.masked_fill(ids == TOKEN, 3), vectors)
    assert txgraphs.splice.spliced(3) is not txgraphs.splice.spliced(TOKEN)


@pytest.mark.parametrize("consecutive", [1, 2, 4])
@pytest.mark.parametrize("lengths", [(5, 8, 1), (8, 8, 8), (4, 3, 6), (0, 0, 4)], ids=str)
def test_vectors_of_padding_are_left_out(consecutive, lengths):
    """A vector counts where all that became it are real; the others of a sound are not read."""
    features = random(B, 8 // consecutive, W)
    mask = (torch.arange(8) < torch.tensor(lengths)[:, None]).long()
    function = txgraphs.real_vectors.real_vectors(consecutive)
    [result] = check(partial(real_vectors, consecutive), function, features, mask)
    counts = [length // consecutive for length in lengths]
    expected = torch.cat([row[:count] for row, count in zip(features, counts, strict=True)])
    np.testing.assert_array_equal(result, expected.numpy())
