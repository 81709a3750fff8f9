"""Layers with states: twins, PyTorch and transformers, and pieces that equal one pass."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.block
import txgraphs.causal_convolution
import txgraphs.mask
import txgraphs.short_convolution
import txmodels.block
import txmodels.causal_convolution
import txmodels.mask
import txmodels.short_convolution
from helpers.layer_pieces import new_tokens
from helpers.twins import check, integers, random, rows_of, seeded
from transformers import DynamicCache, Lfm2Config
from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv

from txexport.spec import (
    Activation,
    BlockSpec,
    FeedForwardSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    ShortConvolutionSpec,
    parameters,
)

B, S, W = 4, 7, 6
SPECS = {
    "published": ShortConvolutionSpec(W, 3),
    "two tokens, biases": ShortConvolutionSpec(W, 2, bias=True),
    "five tokens, biases": ShortConvolutionSpec(W, 5, bias=True),
}
EACH = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
ALL = [S] * B
COUNTS = {"full": ALL, "ragged": [7, 1, 0, 4], "none": [0] * B}
SIDES = pytest.mark.parametrize("side", ["right", "left"])


def unpadded(module, x: torch.Tensor, past: torch.Tensor, *real) -> tuple[torch.Tensor, torch.Tensor]:
    """A module's results for one row of tokens (S,W) without padding."""
    ends = torch.tensor([len(x)])
    with torch.no_grad():
        y, present = module(x[None], past[None], *([torch.ones(1, len(x), 1)] if real else []), ends)
    return y[0], present[0]


def row_tokens(count: int, side: str, length: int = S) -> slice:
    """The positions of a row's tokens."""
    return slice(0, count) if side == "right" else slice(length - count, length)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kernel", [2, 3, 5])
@pytest.mark.parametrize("length", [1, S])
def test_convolution_is_that_of_pytorch(kernel, bias, length):
    """Over the inputs before it: their first is not read, and the last K are left."""
    module = txmodels.causal_convolution.CausalConvolution(W, kernel, bias)
    function = partial(txgraphs.causal_convolution.causal_convolution, kernel, bias)
    x, past, ends = random(B, length, W), random(B, W, kernel), torch.full([B], length)
    y, present = check(module, function, x, past, ends)
    inputs = torch.cat([past, x.mT], dim=2)
    weight, added = module.weight.detach(), module.bias.detach() if bias else None
    expected = torch.nn.functional.conv1d(inputs[:, :, 1:], weight, added, groups=W).mT
    np.testing.assert_allclose(y, expected.numpy(), atol=1e-5)
    np.testing.assert_array_equal(present, inputs[:, :, -kernel:].numpy())


@SIDES
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@EACH
def test_short_convolution(spec, counts, side):
    """Each row is as it is alone; one without tokens leaves its state as it was."""
    module = txmodels.short_convolution.ShortConvolution(spec)
    function = partial(txgraphs.short_convolution.short_convolution, spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.attention(spec)
    x, past = random(B, S, W), random(B, *spec.states["conv"])
    if side == "left":  # what a row has read comes right before its tokens only where nothing pads them
        past[torch.tensor(counts) < S] = 0
    y, present = check(module, function, x, past, *new_tokens(counts, S, side))
    for row, count in enumerate(counts):
        if not count:
            np.testing.assert_array_equal(present[row], past[row].numpy())
            continue
        tokens = row_tokens(count, side)
        expected, state = unpadded(module, x[row, tokens], past[row], True)
        np.testing.assert_allclose(y[row, tokens], expected.numpy(), atol=1e-6)
        np.testing.assert_allclose(present[row], state.numpy(), atol=1e-6)


@EACH
def test_short_convolution_of_tokens_requested(spec):
    module = txmodels.short_convolution.ShortConvolution(spec)
    function = partial(txgraphs.short_convolution.short_convolution, spec)
    x, past, picks = random(B, S, W), random(B, *spec.states["conv"]), integers(S, B, 2)
    tokens = new_tokens(COUNTS["ragged"], S)
    y, present = check(module, function, x, past, *tokens, logits_indices=picks)
    with torch.no_grad():
        every, state = module(x, past, *tokens)
    np.testing.assert_allclose(y, rows_of(every, picks, 1).numpy(), atol=1e-6)
    np.testing.assert_array_equal(present, state.numpy())


@pytest.mark.parametrize("pieces", [[1] * S, [2, 5], [5, 1, 1]], ids=str)
@EACH
def test_pieces_equal_one_pass(spec, pieces):
    module = seeded(txmodels.short_convolution.ShortConvolution(spec))
    x, state = random(S, W), random(*spec.states["conv"])
    expected, last = unpadded(module, x, state, True)
    results = []
    for piece in x.split(pieces):
        y, state = unpadded(module, piece, state, True)
        results.append(y)
    torch.testing.assert_close(torch.cat(results), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(state, last, atol=1e-6, rtol=0)


@EACH
def test_short_convolution_is_that_of_transformers(spec):
    """Outputs and states of a prompt, and of the steps after it."""
    config = Lfm2Config(
        hidden_size=W,
        conv_L_cache=spec.kernel,
        conv_bias=spec.bias,
        layer_types=["conv"],
        num_hidden_layers=1,
    )
    ours, theirs = seeded(txmodels.short_convolution.ShortConvolution(spec)), Lfm2ShortConv(config, 0).eval()
    for mine, other in (("project", "in_proj"), ("convolution", "conv"), ("output", "out_proj")):
        getattr(theirs, other).load_state_dict(getattr(ours, mine).state_dict())
    x, state, cache = random(B, S, W), torch.zeros(B, *spec.states["conv"]), DynamicCache(config=config)
    for piece in x.split([S - 2, 1, 1], dim=1):
        with torch.no_grad():
            expected = theirs(piece, cache)
            y, state = ours(piece, state, *new_tokens([piece.shape[1]] * B, piece.shape[1]))
        torch.testing.assert_close(y, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(state, cache.layers[0].conv_states[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("requested", [False, True])
@EACH
def test_block(spec, requested):
    """Norms and residuals around the convolution, of all tokens or of those requested."""
    block = BlockSpec(
        spec,
        FeedForwardSpec(W, 9, Activation.SILU, gated=True, bias=False),
        NormSpec(W, 1e-5, NormKind.RMS),
        NormPlacement.PRE,
    )
    real, ends = new_tokens(COUNTS["ragged"], S)
    context = {"conv": random(B, *spec.states["conv"]), "real": real, "ends": ends}
    picks = integers(S, B, 2)
    module = txmodels.block.StatefulBlock(block)
    function = partial(txgraphs.block.stateful_block, block)
    y, *_ = check(
        module, function, random(B, S, W), **context, **({"logits_indices": picks} if requested else {})
    )
    assert y.shape == (B, 2 if requested else S, W)
    if requested:
        with torch.no_grad():
            every, _ = module(random(B, S, W), **context)
        np.testing.assert_allclose(y, rows_of(every, picks, 1).numpy(), atol=1e-5)


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_counted_tokens(counts):
    ids, lengths = torch.zeros(B, S, dtype=torch.int64), torch.tensor(counts)
    [real] = check(txmodels.mask.counted_tokens, txgraphs.mask.counted_tokens, ids, lengths)
    np.testing.assert_array_equal(real, new_tokens(counts, S)[0].numpy() > 0)


@SIDES
@pytest.mark.parametrize("past", [0, 5])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_masked_tokens(counts, past, side):
    """Those of the mask that are new: what it says of the past changes nothing."""
    real, ends = new_tokens(counts, S, side)
    earlier = integers(2, B, past)
    mask = torch.cat([earlier, real[:, :, 0].long()], dim=1)
    ids = torch.zeros(B, S, dtype=torch.int64)
    both = check(txmodels.mask.masked_tokens, txgraphs.mask.masked_tokens, mask, ids)
    np.testing.assert_array_equal(both[0], real.numpy() > 0)
    np.testing.assert_array_equal(both[1], ends.numpy())
