"""Vectors of an image's tiles as one map: both halves, and what transformers packs."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
import txgraphs.mosaic
from helpers.twins import check, random, seeded
from transformers.models.llava_next.modeling_llava_next import LlavaNextModel
from transformers.models.llava_onevision.modeling_llava_onevision import LlavaOnevisionModel
from txmodels.mosaic import Mosaic, reduced, tiles_as_map

from txexport.contracts.tile_grid import SINGLE, grid_of, vectors_of
from txexport.spec import MosaicSpec

W, TILE = 5, 24
CANVASES = ((24, 48), (48, 24), (48, 48), (72, 24), (24, 72))
SIZES = [(25, 41), (41, 25), (9, 41), (48, 48), (70, 13), (1, 60), (60, 1), (24, 24), (33, 34)]


def spec_of(side, most=None) -> MosaicSpec:
    return MosaicSpec(TILE, side, CANVASES, most)


@pytest.mark.parametrize("most", [None, 2, 1])
@pytest.mark.parametrize("side", [3, 4])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_mosaic(size, side, most):
    spec = spec_of(side, most)
    grid = grid_of(size, CANVASES, TILE, side, most)
    module = seeded(Mosaic(spec, W))
    features = random(1 + grid[0] * grid[1], side**2, W)
    [y] = check(module, partial(txgraphs.mosaic.mosaic, spec), features, torch.tensor([grid]))
    assert y.shape == (vectors_of(grid, side), W)
    config = SimpleNamespace(
        vision_config=SimpleNamespace(image_size=TILE, patch_size=TILE // side),
        image_grid_pinpoints=[*map(list, CANVASES)],
    )
    model, sizes, newline = SimpleNamespace(config=config), torch.tensor([size]), module.newline
    with torch.no_grad():
        if most is None:
            [expected], _ = LlavaNextModel.pack_image_features(model, [features], sizes, "full", newline)
        else:
            ratio = f"anyres_max_{most}"
            [expected], _ = LlavaOnevisionModel.pack_image_features(model, [features], sizes, newline, ratio)
    torch.testing.assert_close(torch.from_numpy(y), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", [None, 9])
def test_an_image_that_is_not_cut_has_one_vector_more(most):
    spec, features = spec_of(3, most), random(1, 9, W)
    module = seeded(Mosaic(spec, W))
    [y] = check(module, partial(txgraphs.mosaic.mosaic, spec), features, torch.tensor([SINGLE]))
    assert torch.equal(torch.from_numpy(y), torch.cat([features[0], module.newline.detach()[None]]))


@pytest.mark.parametrize(("count", "size"), [(9, 4), (9, 9), (7, 5), (2, 1), (1, 1), (30, 29)])
def test_rows_are_interpolated_as_in_transformers(count, size):
    x = random(count, 3, W)

    def twin(x, size):
        return reduced(x, int(size))

    [y] = check(twin, txgraphs.mosaic.reduced, x, torch.tensor([size]))
    both = F.interpolate(x.permute(2, 0, 1)[None], [size, 3], mode="bilinear")[0].permute(1, 2, 0)
    torch.testing.assert_close(torch.from_numpy(y), both, rtol=1e-5, atol=1e-5)


def test_tiles_lie_row_by_row():
    numbers = torch.arange(6 * 4.0)[:, None].expand(-1, W).reshape(6, 4, W)
    [y] = check(
        lambda tiles, rows, columns: tiles_as_map(2, tiles, int(rows), int(columns)),
        txgraphs.mosaic.tiles_as_map(2),
        numbers,
        torch.tensor([2]),
        torch.tensor([3]),
    )
    assert y[:, :, 0].tolist() == [
        [0, 1, 4, 5, 8, 9],
        [2, 3, 6, 7, 10, 11],
        [12, 13, 16, 17, 20, 21],
        [14, 15, 18, 19, 22, 23],
    ]
