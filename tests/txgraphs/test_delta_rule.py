"""The gated delta rule: twins, loops over tokens, the layer of transformers, and rows in pieces."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.delta_rule
import txgraphs.gated_delta
import txmodels.delta_rule
import txmodels.gated_delta
from helpers.layer_pieces import check_layer, check_left_padding, check_pieces
from helpers.twins import check, random, seeded
from transformers import OlmoHybridConfig, Qwen3_5TextConfig
from transformers.models.olmo_hybrid.modeling_olmo_hybrid import OlmoHybridGatedDeltaNet
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5GatedDeltaNet
from txmodels.delta_rule import CHUNK

from txexport.spec import GatedDeltaSpec, NormKind, NormSpec

B, W = 3, 12
LENGTHS = [1, 7, CHUNK, CHUNK + 1, 2 * CHUNK + 6]
SPECS = {
    "shared keys": GatedDeltaSpec(W, 2, 4, 6, 5, 4, NormSpec(5, 1e-6, NormKind.RMS)),
    "beta up to 2": GatedDeltaSpec(W, 2, 2, 6, 5, 3, NormSpec(5, 1e-5, NormKind.RMS), True),
    "a head each": GatedDeltaSpec(W, 3, 3, 4, 8, 2, NormSpec(8, 1e-3, NormKind.RMS)),
}
EACH = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def inputs_of(length: int, heads: int = 2, keys: int = 5, values: int = 4) -> tuple[torch.Tensor, ...]:
    """q, k, v, decay, beta and a state; vectors of queries and keys have length 1."""
    q, k = (torch.nn.functional.normalize(random(B, length, heads, keys) + n, dim=-1) for n in (0, 0.3))
    decay = -random(B, length, heads, 1).abs()
    beta = random(B, length + 1, heads, 1)[:, 1:].sigmoid()
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


@pytest.mark.parametrize("length", LENGTHS)
def test_chunks_equal_token_by_token(length):
    inputs = inputs_of(length)
    y, state = check(txmodels.delta_rule.delta_rule, txgraphs.delta_rule.delta_rule, *inputs)
    expected, last = by_token(*inputs)
    np.testing.assert_allclose(y, expected.numpy(), atol=2e-6)
    np.testing.assert_allclose(state, last.numpy(), atol=2e-6)


def test_decays_of_any_size_are_exact():
    """From none to all of it: sums of what lies between two tokens, not differences of large numbers."""
    q, k, v, _, beta, state = inputs_of(CHUNK)
    decay = torch.full((B, CHUNK, 2, 1), -1e-4)
    decay[:, : CHUNK // 2] = -40.0
    inputs = q, k, v, decay, beta, state
    y, last = check(txmodels.delta_rule.delta_rule, txgraphs.delta_rule.delta_rule, *inputs)
    expected, after = by_token(*inputs)
    np.testing.assert_allclose(y, expected.numpy(), atol=2e-6)
    np.testing.assert_allclose(last, after.numpy(), atol=2e-6)


@pytest.mark.parametrize("size", [1, 2, 7, CHUNK])
def test_the_inverse_of_a_triangular_system(size):
    """Of equal keys without decay too, where a series of powers would lose all digits."""
    for system in (0.3 * random(2, 3, size, size), torch.ones(2, 3, size, size)):
        [inverse] = check(txmodels.delta_rule.inverted, txgraphs.delta_rule.inverted, system)
        expected = torch.linalg.inv(torch.eye(size) + system.double().tril(-1))
        np.testing.assert_allclose(inverse, expected.numpy(), rtol=0, atol=2e-6)


@EACH
@pytest.mark.parametrize("length", [1, 5, CHUNK + 3])
@pytest.mark.parametrize("picks", [None, [[0, 0], [2, 1], [1, 4]]], ids=["every token", "two of each row"])
def test_layer(spec, length, picks):
    module, function = txmodels.gated_delta.GatedDelta(spec), partial(txgraphs.gated_delta.gated_delta, spec)
    check_layer(spec, module, function, length, picks)


def of_olmo(spec: GatedDeltaSpec, module: torch.nn.Module) -> OlmoHybridGatedDeltaNet:
    """The layer of OLMo Hybrid with our weights; the epsilon of its norm is fixed."""
    config = OlmoHybridConfig(
        hidden_size=spec.hidden_size,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=spec.num_key_heads,
        linear_num_value_heads=spec.num_value_heads,
        linear_key_head_dim=spec.key_dim,
        linear_value_head_dim=spec.value_dim,
        linear_conv_kernel_dim=spec.kernel,
    )
    layer = OlmoHybridGatedDeltaNet(config, 0).eval()
    names = {"convolution": "conv1d", "head_norm": "o_norm", "decay": "a_proj", "output": "o_proj"}
    names |= {name: f"{name[0]}_proj" for name in ("query", "key", "value", "gate", "beta")}
    renamed = {f"{ours}.weight": f"{theirs}.weight" for ours, theirs in names.items()}
    renamed |= {"rate": "A_log", "step": "dt_bias"}
    layer.load_state_dict({renamed[name]: value for name, value in module.named_parameters()})
    layer.config = config
    return layer


def original(spec: GatedDeltaSpec, module: torch.nn.Module) -> torch.nn.Module:
    """The layer of transformers with our weights."""
    if spec.negative_eigenvalues:
        return of_olmo(spec, module)
    config = Qwen3_5TextConfig(
        hidden_size=spec.hidden_size,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
        linear_num_key_heads=spec.num_key_heads,
        linear_num_value_heads=spec.num_value_heads,
        linear_key_head_dim=spec.key_dim,
        linear_value_head_dim=spec.value_dim,
        linear_conv_kernel_dim=spec.kernel,
        rms_norm_eps=spec.norm.eps,
    )
    layer = Qwen3_5GatedDeltaNet(config, 0).eval()
    ours = dict(module.named_parameters())
    joined = torch.cat([ours[f"{name}.weight"] for name in ("query", "key", "value")])
    names = {
        "in_proj_z.weight": "gate.weight",
        "in_proj_b.weight": "beta.weight",
        "in_proj_a.weight": "decay.weight",
        "conv1d.weight": "convolution.weight",
        "dt_bias": "step",
        "A_log": "rate",
        "norm.weight": "head_norm.weight",
        "out_proj.weight": "output.weight",
    }
    state = {theirs: ours[name] for theirs, name in names.items()} | {"in_proj_qkv.weight": joined}
    layer.load_state_dict(state)
    layer.config = config
    return layer


@EACH
@torch.no_grad()
def test_rows_in_pieces_equal_the_layer_of_transformers(spec):
    """Ragged rows padded on the right, in pieces of several sizes; each row alone in one pass there."""
    module = seeded(txmodels.gated_delta.GatedDelta(spec))
    x, sizes = random(B, 3 * CHUNK, W), [4, 1, CHUNK + 2, 3 * CHUNK]
    lengths = [3 * CHUNK, CHUNK + 1, 5]
    check_pieces(module, original(spec, module), spec.states.values(), x, lengths, sizes)


@EACH
@torch.no_grad()
def test_padding_on_the_left_equals_the_layer_of_transformers_without_it(spec):
    module = seeded(txmodels.gated_delta.GatedDelta(spec))
    check_left_padding(module, original(spec, module), spec.states.values(), random(B, 9, W))


def test_logarithms_keep_the_digits_of_small_numbers():
    """As PyTorch's log1p, where adding 1 loses them."""
    x = torch.linspace(-30, 30, 4001)
    [y] = check(txmodels.activation.softplus, txgraphs.activation.softplus, x)
    exact = np.logaddexp(0, x.double().numpy())
    assert np.abs(y / exact - 1).max() < 5e-7
