"""A network whose activation has learned numbers, beside the library's."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.xielu
import txmodels.xielu
from helpers.twins import check, random, seeded
from transformers.activations import XIELUActivation

from txexport.spec import XieluFeedForwardSpec

B, S, W = 3, 5, 12


def test_network():
    spec = XieluFeedForwardSpec(W, 20)
    module = txmodels.xielu.XieluFeedForward(spec)
    check(module, partial(txgraphs.xielu.xielu_feed_forward, spec), random(B, S, W))


@pytest.mark.parametrize("scale", [1e-7, 1e-3, 1.0, 30.0])
def test_activation_is_that_of_the_original(scale):
    """As exactly near zero, where exp(x) - 1 would lose most of its bits."""
    x = torch.cat([random(B, S, W) * scale, torch.zeros(B, S, 1)], dim=2)
    module = seeded(txmodels.xielu.Xielu())
    [y] = check(module, txgraphs.xielu.xielu, x)
    original = XIELUActivation(dtype=torch.float64)
    with torch.no_grad():
        original.alpha_p.copy_(module.alpha_p)
        original.alpha_n.copy_(module.alpha_n)
        expected = original(x.double()).numpy()
    bound = 1e-6 * (np.abs(expected) + np.abs(x.numpy()))  # two terms cancel out where the sign changes
    assert (np.abs(y - expected) <= bound + 1e-12).all()
