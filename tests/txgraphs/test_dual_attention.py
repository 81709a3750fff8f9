"""DaViT's layers and the vectors of an image: both halves on the same numbers."""

from functools import partial

import pytest
import txgraphs.dual_attention as graphs
from helpers.twins import check, random
from txmodels.dual_attention import (
    ChannelAttention,
    DualLayer,
    DualMerging,
    PictureVectors,
    PlainWindowAttention,
)

from txexport.errors import SpecError
from txexport.spec import DualStageSpec, FeedForwardSpec, NormSpec, PicturesSpec
from txexport.spec.enums import Activation

W, B = 12, 2


def stage_of(**changes) -> DualStageSpec:
    sizes = {"inputs": 5, "hidden_size": W, "kernel": 3, "stride": 2, "num_layers": 1}
    kinds = {"num_heads": 3, "num_groups": 2, "feed_forward": FeedForwardSpec(W, 20, Activation.GELU)}
    return DualStageSpec(**sizes | kinds | {"norm": NormSpec(5, 1e-5), "norm_last": False} | changes)


def spec_of(**changes) -> PicturesSpec:
    return PicturesSpec(
        **{"stages": (stage_of(),), "window": 4, "positions": 6, "moments": 2, "norm": NormSpec(8, 1e-5)}
        | changes
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("grid", [(4, 4), (5, 9), (1, 1), (8, 3)])
def test_windows_and_channels(grid, bias):
    x, stage = random(B, *grid, W), stage_of()
    window = partial(graphs.plain_window_attention, stage, 4, bias)
    check(PlainWindowAttention(stage, 4, bias), window, x)
    check(ChannelAttention(stage, bias), partial(graphs.channel_attention, stage, bias), x)


@pytest.mark.parametrize("window", [3, None])
def test_layer(window):
    stage, norm = stage_of(), NormSpec(W, 1e-5)
    attention = ChannelAttention(stage, True) if window is None else PlainWindowAttention(stage, 3, True)
    layer = partial(graphs.dual_layer, stage, window, True, norm)
    check(DualLayer(stage, attention, norm), layer, random(B, 5, 4, W))


@pytest.mark.parametrize("grid", [(8, 8), (7, 10), (1, 3)])
@pytest.mark.parametrize(
    "changes", [{}, {"norm": NormSpec(W, 1e-5), "norm_last": True}, {"kernel": 7, "stride": 4}], ids=str
)
def test_merging(changes, grid):
    stage = stage_of(**changes)
    [y] = check(DualMerging(stage), partial(graphs.dual_merging, stage), random(B, *grid, 5))
    assert y.shape == (B, *(-(-side // stage.stride) for side in grid), W)


@pytest.mark.parametrize("grid", [(6, 6), (2, 5), (1, 1)])
def test_vectors(grid):
    spec = spec_of()
    vectors = partial(graphs.picture_vectors, spec)
    [features] = check(PictureVectors(spec), vectors, random(B, *grid, W))
    assert features.shape == (B, 1 + grid[0] * grid[1], 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": 4}, "kernel is 4 with stride 2; expected an odd number"),
        ({"kernel": 1}, "kernel is 1 with stride 2"),
        ({"norm_last": True}, "norm is 5 wide, expected 12"),
        ({"feed_forward": FeedForwardSpec(4, 8, Activation.GELU)}, "feed_forward is 4 wide, the stage 12"),
        ({"num_heads": 5}, "num_heads is 5, expected a divisor of 12"),
        ({"num_groups": 7}, "num_groups is 7, expected a divisor of 12"),
        ({"num_layers": 0}, "num_layers"),
    ],
)
def test_contradictions_of_a_stage_are_refused(changes, message):
    with pytest.raises(SpecError, match=message):
        stage_of(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": ()}, "no stages, expected one or more"),
        ({"stages": (stage_of(), stage_of())}, "a stage reads 5 numbers, the one before gives 12"),
        ({"window": 0}, "window"),
        (
            {
                "stages": (
                    stage_of(
                        hidden_size=3, num_groups=3, feed_forward=FeedForwardSpec(3, 8, Activation.GELU)
                    ),
                )
            },
            "hidden_size is 3, expected an even number",
        ),
    ],
)
def test_contradictions_of_pictures_are_refused(changes, message):
    with pytest.raises(SpecError, match=message):
        spec_of(**changes)
