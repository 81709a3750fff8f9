"""Delta rules that decay channels apart: twins, loops over tokens, the original layer, rows in pieces."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.channel_delta_rule
import txgraphs.kimi_delta
import txmodels.channel_delta_rule
import txmodels.delta_rule
import txmodels.kimi_delta
from helpers.layer_pieces import check_layer, check_left_padding, check_pieces
from helpers.twins import check, random, seeded
from transformers import KimiLinearConfig
from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearDeltaAttention
from txmodels.delta_rule import CHUNK

from txexport.spec import KimiDeltaSpec, NormKind, NormSpec

B, W = 3, 12
LENGTHS = [1, 2, 7, CHUNK, CHUNK + 1, 2 * CHUNK + 6]
SPECS = {
    "two heads": KimiDeltaSpec(W, 2, 6, 4, NormSpec(6, 1e-6, NormKind.RMS)),
    "three heads": KimiDeltaSpec(W, 3, 5, 2, NormSpec(5, 1e-3, NormKind.RMS)),
}
EACH = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
HALVES = txmodels.channel_delta_rule.channel_delta_rule, txgraphs.channel_delta_rule.channel_delta_rule


def inputs_of(length: int, heads: int = 2, keys: int = 5, values: int = 4) -> tuple[torch.Tensor, ...]:
    """q, k, v, decay, beta and a state; vectors of queries and keys have length 1."""
    q, k = (torch.nn.functional.normalize(random(B, length, heads, keys) + n, dim=-1) for n in (0, 0.3))
    decay = -random(B, length + 1, heads, keys)[:, 1:].abs()
    beta = random(B, length, heads, 1).sigmoid()
    return q, k, random(B, length, heads, values), decay, beta, random(B, heads, keys, values)


def by_token(q, k, v, decay, beta, state) -> tuple[torch.Tensor, torch.Tensor]:
    """The rule token by token, in float64."""
    q, k, v, decay, beta, state = (one.double() for one in (q, k, v, decay, beta, state))
    outputs = []
    for token in range(q.shape[1]):
        state = state * decay[:, token, :, :, None].exp()
        key = k[:, token, :, :, None]  # (B, V, D, 1)
        change = v[:, token] - (key * state).sum(2)  # (B, V, E)
        state = state + key * (beta[:, token] * change)[:, :, None]
        outputs.append((q[:, token, :, :, None] * state).sum(2))
    return torch.stack(outputs, 1), state


def check_rule(*inputs: torch.Tensor) -> None:
    """Compare both halves with the rule token by token."""
    for ours, expected in zip(check(*HALVES, *inputs), by_token(*inputs), strict=True):
        np.testing.assert_allclose(ours, expected.numpy(), atol=3e-6)


@pytest.mark.parametrize("length", LENGTHS)
def test_chunks_equal_token_by_token(length):
    check_rule(*inputs_of(length))


@pytest.mark.parametrize("largest", [0.0, 1e-4, 3.0, 40.0, 1e4])
def test_decays_of_any_size_are_exact(largest):
    """From none to all of it, in neighbouring channels and tokens, where exp of one sum would overflow."""
    q, k, v, decay, beta, state = inputs_of(2 * CHUNK)
    sizes = torch.tensor([0.0, 1e-4, 0.1, 1.0, 1.0]) * largest  # of channels
    decay = decay * sizes
    decay[:, 3:CHUNK:5] *= 1e-3
    check_rule(q, k, v, decay, beta, state)


def test_equal_decays_are_those_of_the_plain_rule():
    q, k, v, decay, beta, state = inputs_of(CHUNK + 5)
    decay = decay[..., :1]
    ours = txmodels.channel_delta_rule.channel_delta_rule(q, k, v, decay.expand_as(k), beta, state)
    plain = txmodels.delta_rule.delta_rule(q, k, v, decay, beta, state)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-6)


@EACH
@pytest.mark.parametrize("length", [1, 5, CHUNK + 3])
@pytest.mark.parametrize("picks", [None, [[0, 0], [2, 1], [1, 4]]], ids=["every token", "two of each row"])
def test_layer(spec, length, picks):
    module, function = txmodels.kimi_delta.KimiDelta(spec), partial(txgraphs.kimi_delta.kimi_delta, spec)
    check_layer(spec, module, function, length, picks)


def original(spec: KimiDeltaSpec, module: torch.nn.Module) -> KimiLinearDeltaAttention:
    """The layer of transformers with our weights."""
    config = KimiLinearConfig(
        hidden_size=spec.hidden_size,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        linear_num_heads=spec.num_delta_heads,
        linear_head_dim=spec.head_dim,
        linear_conv_kernel_dim=spec.kernel,
        rms_norm_eps=spec.norm.eps,
    )
    layer = KimiLinearDeltaAttention(config, 0).eval()
    ours = dict(module.named_parameters())
    names = {name: f"{name[0]}_proj" for name in ("query", "key", "value", "beta")}
    names |= {"gate_down": "g_a_proj", "gate_up": "g_b_proj", "output": "o_proj", "head_norm": "o_norm"}
    names |= {"decay_down": "forget_gate.f_a_proj", "decay_up": "forget_gate.f_b_proj"}
    names |= {"convolution": "conv1d"}
    state = {f"{theirs}.weight": ours[f"{name}.weight"] for name, theirs in names.items()}
    state |= {"forget_gate.dt_bias": ours["step"], "forget_gate.A_log": ours["rate"].view(1, 1, -1, 1)}
    layer.load_state_dict(state)
    layer.config = config
    return layer


@EACH
@torch.no_grad()
def test_rows_in_pieces_equal_the_layer_of_transformers(spec):
    """Ragged rows padded on the right, in pieces of several sizes; each row alone in one pass there."""
    module = seeded(txmodels.kimi_delta.KimiDelta(spec))
    x, sizes = random(B, 3 * CHUNK, W), [4, 1, CHUNK + 2, 3 * CHUNK]
    lengths = [3 * CHUNK, CHUNK + 1, 5]
    check_pieces(module, original(spec, module), spec.states.values(), x, lengths, sizes)


@EACH
@torch.no_grad()
def test_padding_on_the_left_equals_the_layer_of_transformers_without_it(spec):
    module = seeded(txmodels.kimi_delta.KimiDelta(spec))
    check_left_padding(module, original(spec, module), spec.states.values(), random(B, 9, W))
