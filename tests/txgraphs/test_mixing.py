"""Time mixing and channel mixing: twins, float64, the layer of transformers, and rows in pieces."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.mixing_block
import txgraphs.wkv
import txmodels.mixing_block
import txmodels.wkv
from helpers.layer_pieces import new_tokens
from helpers.twins import check, integers, random, rows_of, seeded
from transformers import RwkvConfig
from transformers.models.rwkv.modeling_rwkv import RwkvBlock, rwkv_linear_attention_cpu

from txexport.spec import BlockSpec, ChannelMixSpec, NormPlacement, NormSpec, TimeMixSpec, parameters

B, S, W, F = 3, 7, 12, 20
SPEC = BlockSpec(TimeMixSpec(W), ChannelMixSpec(W, F), NormSpec(W, 1e-3), NormPlacement.PRE)
SIDES = pytest.mark.parametrize("side", ["right", "left"])
COUNTS = {"full": [S] * B, "ragged": [S, 1, 4], "a row of none": [0, 3, S]}


def exact(k, v, decay, bonus) -> torch.Tensor:
    """The means of one row (S,W) as a sum over all pairs of tokens, in float64."""
    k, v, decay, bonus = (one.double() for one in (k, v, decay, bonus))
    means = []
    for last in range(len(k)):
        ages = torch.arange(last - 1, -2, -1).double()[:, None]  # (last + 1, 1); -1 for the token itself
        weights = torch.where(ages < 0, k[: last + 1] + bonus, k[: last + 1] + ages * decay).softmax(0)
        means.append((weights * v[: last + 1]).sum(0))
    return torch.stack(means)


def by_wkv(*inputs: torch.Tensor) -> list[np.ndarray]:
    """The outputs of both twins."""
    return check(txmodels.wkv.wkv, lambda g, *values: txgraphs.wkv.wkv(g, *values), *inputs)


def module_of(spec: BlockSpec) -> torch.nn.Module:
    """Our layer."""
    return seeded(txmodels.mixing_block.MixingBlock(spec))


def original_of(module: torch.nn.Module) -> torch.nn.Module:
    """The layer of transformers with the parameters of ours."""
    config = RwkvConfig(hidden_size=W, intermediate_size=F, num_hidden_layers=2, layer_norm_epsilon=1e-3)
    layer = RwkvBlock(config, 1).eval()
    layer.layer_id = layer.attention.layer_id = layer.feed_forward.layer_id = 0
    layer.pre_ln = torch.nn.Identity()
    layer.ln1.load_state_dict(module.attention_norm.state_dict())
    layer.ln2.load_state_dict(module.feed_forward_norm.state_dict())
    with torch.no_grad():
        layer.attention.time_decay.copy_(module.attention.decay)
        layer.attention.time_first.copy_(module.attention.bonus)
        for part, names in (
            ("attention", {"k": "key", "v": "value", "gate": "receptance", "output": "output"}),
            ("feed_forward", {"up": "key", "gate": "receptance", "down": "value"}),
        ):
            ours, theirs = getattr(module, part), getattr(layer, part)
            for one, other in names.items():
                getattr(theirs, other).load_state_dict(getattr(ours, one).state_dict())
                if hasattr(ours, f"mix_{one}"):
                    getattr(theirs, f"time_mix_{other}").copy_(getattr(ours, f"mix_{one}"))
    return layer


def by_original(layer: torch.nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """One pass (1,S,W) of the original: y, and its states by our names."""
    state = [torch.zeros(1, W, 1) for _ in range(5)]
    state[4] -= 1e30
    with torch.no_grad():
        y, state, _ = layer(x, state=state, use_cache=True)
    names = "channel_shift", "time_shift", "numerator", "denominator", "maximum"
    return y, {name: one[:, :, 0] for name, one in zip(names, state, strict=True)}


def states_of(rows: int = B) -> dict[str, torch.Tensor]:
    """States of rows that have no past."""
    return {name: torch.zeros(rows, *shape) for name, shape in SPEC.states.items()}


def by_twins(module, x, states, real, ends, **picks):
    """y and the states by name, of both twins."""
    named = {"real": real, "ends": ends, **states, **picks}
    y, *after = check(module, partial(txgraphs.mixing_block.mixing_block, SPEC), x, **named)
    return y, dict(zip(SPEC.states, after, strict=True))


@pytest.mark.parametrize("length", [1, 2, 300])
@pytest.mark.parametrize("level", [0.0, 500.0, -500.0])
def test_means_equal_those_in_float64(length, level):
    """Channels that forget at once, and those that never do; keys whose exponentials overflow."""
    decay = -torch.cat([torch.zeros(1), torch.logspace(-6, 3, 19)])
    k, v, bonus = 5 * random(1, length, 20) + level, random(1, length, 20), random(20)
    zeros = torch.zeros(1, 20)
    y, *after = by_wkv(k, v, decay, bonus, zeros, zeros, zeros, torch.ones(1, length, 1))
    np.testing.assert_allclose(y[0], exact(k[0], v[0], decay, bonus), atol=1e-3 if level else 1e-5)
    with torch.no_grad():
        expected, states = rwkv_linear_attention_cpu(decay.neg().log(), bonus, k, v, return_state=True)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    for ours, theirs in zip(after, states, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_row_that_has_read_nothing_reads_its_first_token_alone():
    """Zeros are no past, even where the first key is far below them."""
    zeros, k, v = torch.zeros(B, W), torch.full((B, 1, W), -200.0), random(B, 1, W)
    inputs = k, v, torch.full((W,), -0.1), random(W), zeros, zeros, zeros
    y, numerator, denominator, maximum = by_wkv(*inputs, torch.ones(B, 1, 1))
    np.testing.assert_allclose(y, v, atol=1e-6)
    np.testing.assert_allclose(numerator, v[:, 0], atol=1e-6)
    assert (denominator == 1).all()
    assert (maximum == -200).all()


@SIDES
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_each_row_is_that_of_transformers_alone(counts, side):
    """Whatever pads it; a row without tokens has sums of 0."""
    module = module_of(SPEC)
    shapes = parameters.block(SPEC)
    assert {name: tuple(one.shape) for name, one in module.named_parameters()} == shapes
    x, layer = random(B, S, W), original_of(module)
    y, after = by_twins(module, x, states_of(), *new_tokens(counts, S, side))
    for row, count in enumerate(counts):
        if not count:
            assert not any(after[name][row].any() for name in SPEC.states if name != "maximum")
            continue
        read = slice(0, count) if side == "right" else slice(S - count, S)
        expected, states = by_original(layer, x[row : row + 1, read])
        np.testing.assert_allclose(y[row, read], expected[0], atol=1e-5)
        for name, state in states.items():
            np.testing.assert_allclose(after[name][row], state[0], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("pieces", [[1] * S, [2, 5], [5, 1, 1]], ids=str)
def test_pieces_equal_one_pass_of_transformers(pieces):
    module, x, states, results = module_of(SPEC), random(B, S, W), states_of(), []
    for piece in x.split(pieces, dim=1):
        length = piece.shape[1]
        y, after = by_twins(module, piece, states, *new_tokens([length] * B, length))
        states = {name: torch.from_numpy(one) for name, one in after.items()}
        results.append(torch.from_numpy(y))
    layer, together = original_of(module), torch.cat(results, dim=1)
    for row in range(B):
        expected, after = by_original(layer, x[[row]])
        torch.testing.assert_close(together[row], expected[0], atol=1e-5, rtol=0)
        for name, state in after.items():
            torch.testing.assert_close(states[name][row], state[0], atol=1e-5, rtol=0)


def test_outputs_of_the_tokens_requested():
    module, picks = module_of(SPEC), integers(S, B, 2)
    inputs = random(B, S, W), states_of(), *new_tokens(COUNTS["ragged"], S)
    y, after = by_twins(module, *inputs, logits_indices=picks)
    every, states = by_twins(module, *inputs)
    np.testing.assert_allclose(y, rows_of(torch.from_numpy(every), picks, 1), atol=1e-6)
    for name, state in states.items():
        np.testing.assert_allclose(after[name], state, atol=1e-6)
