"""State spaces: twins, loops over tokens, the layer of transformers, and rows in pieces."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.chunks
import txgraphs.mamba2
import txgraphs.state_space
import txmodels.chunks
import txmodels.mamba2
import txmodels.state_space
from helpers.layer_pieces import check_layer, check_left_padding, check_pieces
from helpers.twins import check, random, seeded
from transformers import BambaConfig, FalconH1Config
from transformers.models.bamba.modeling_bamba import BambaMixer
from transformers.models.falcon_h1.modeling_falcon_h1 import FalconH1Mixer
from txmodels.chunks import MOST

from txexport.spec import Mamba2Spec, NormKind, NormSpec

B, W = 3, 12
LENGTHS = [1, 7, MOST, MOST + 1, 2 * MOST + 6]


def spec_of(heads: int, size: int, states: int, groups: int, kernel: int, **switches: bool) -> Mamba2Spec:
    norm = NormSpec(heads * size, 1e-3, NormKind.RMS)
    return Mamba2Spec(W, heads, size, states, groups, kernel, norm, **switches)


SPECS = {
    "one group": spec_of(4, 6, 5, 1, 4),
    "two groups": spec_of(4, 6, 7, 2, 2, bias=True),
    "a group each": spec_of(3, 8, 5, 3, 3, convolution_bias=False),
    "norm before the gate": spec_of(4, 6, 5, 2, 4, gate_first=False),
    "no norm": replace(spec_of(4, 6, 5, 2, 4), norm=None),
}
EACH = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def inputs_of(length: int, heads: int, groups: int, size: int = 5, states: int = 4) -> list[torch.Tensor]:
    """x, b, c, steps, decay and a state; heads forget at different rates."""
    steps = random(B, length, heads, 1).abs()
    decay = -steps * torch.linspace(0.01, 3, heads)[:, None]
    b, c = random(B, length, groups, states), random(B, length + 1, groups, states)[:, 1:]
    return [random(B, length, heads, size), b, c, steps, decay, random(B, heads, size, states)]


def by_token(x, b, c, steps, decay, state) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence token by token, in float64."""
    x, b, c, steps, decay, state = (one.double() for one in (x, b, c, steps, decay, state))
    outputs, shared = [], x.shape[2] // b.shape[2]
    for token in range(x.shape[1]):
        writes, reads = (one[:, token].repeat_interleave(shared, 1)[:, :, None] for one in (b, c))
        added = (steps[:, token] * x[:, token])[..., None] * writes  # (B, H, P, D)
        state = state * decay[:, token, :, :, None].exp() + added
        outputs.append((state * reads).sum(-1))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize(("heads", "groups"), [(4, 1), (4, 2), (3, 3)])
@pytest.mark.parametrize("length", LENGTHS)
def test_chunks_equal_token_by_token(length, heads, groups):
    inputs = inputs_of(length, heads, groups)
    function = partial(txgraphs.state_space.state_space, heads, groups)
    y, state = check(txmodels.state_space.state_space, function, *inputs)
    for ours, exact in zip((y, state), by_token(*inputs), strict=True):
        assert np.abs(ours - exact.numpy()).max() < 1e-6 * exact.abs().max()


def test_what_is_nearly_forgotten_is_zero():
    """Products with denormal numbers are slow; those of a decay of e^-90 would be."""
    x = torch.tensor([0.0, -1.0, -59.0, -60.0, -90.0, -103.0, -1e30])
    [y] = check(txmodels.chunks.decayed, txgraphs.chunks.decayed, x)
    np.testing.assert_allclose(y, torch.where(x > -60, x.exp(), 0.0), rtol=1e-6)


@EACH
@pytest.mark.parametrize("length", [1, 5, MOST + 3])
@pytest.mark.parametrize("picks", [None, [[0, 0], [2, 1], [1, 4]]], ids=["every token", "two of each row"])
def test_layer(spec, length, picks):
    module, function = txmodels.mamba2.Mamba2(spec), partial(txgraphs.mamba2.mamba2, spec)
    check_layer(spec, module, function, length, picks)


def original(spec: Mamba2Spec, module: torch.nn.Module) -> BambaMixer | FalconH1Mixer:
    """The layer of transformers with our weights: Bamba's, or Falcon-H1's where a switch is off."""
    inner = spec.num_state_heads * spec.head_dim
    kind, build, more = BambaConfig, BambaMixer, {}
    if spec.norm is None or not spec.gate_first:
        kind, build = FalconH1Config, FalconH1Mixer
        more = {"mamba_d_ssm": None, "mamba_rms_norm": spec.norm is not None}
    config = kind(
        hidden_size=W,
        mamba_expand=inner // W,
        mamba_n_heads=spec.num_state_heads,
        mamba_d_state=spec.state_size,
        mamba_n_groups=spec.num_groups,
        mamba_d_conv=spec.kernel,
        mamba_proj_bias=spec.bias,
        mamba_conv_bias=spec.convolution_bias,
        mamba_chunk_size=MOST // 2,
        rms_norm_eps=1e-3,
        num_hidden_layers=1,
        **more,
    )
    layer = build(config, 0).eval()
    if more:
        layer.register_buffer("mup_vector", torch.ones(()), persistent=False)
    names = {"project": "in_proj", "convolution": "conv1d", "gated_norm": "norm", "output": "out_proj"}
    names |= {"rate": "A_log", "step": "dt_bias", "skip": "D"}
    ours = (name.partition(".") for name, _ in module.named_parameters())
    renamed = {f"{names[first]}{dot}{rest}": f"{first}{dot}{rest}" for first, dot, rest in ours}
    weights = module.state_dict()
    layer.load_state_dict({theirs: weights[name] for theirs, name in renamed.items()})
    layer.config = config
    return layer


@EACH
@torch.no_grad()
def test_rows_in_pieces_equal_the_layer_of_transformers(spec):
    """Ragged rows padded on the right, in pieces of several sizes; each row alone in one pass there."""
    module = seeded(txmodels.mamba2.Mamba2(spec))
    x, sizes = random(B, 3 * MOST, W), [4, 1, MOST + 2, 3 * MOST]
    lengths = [3 * MOST, MOST + 1, 5]
    check_pieces(module, original(spec, module), spec.states.values(), x, lengths, sizes)


@EACH
@torch.no_grad()
def test_padding_on_the_left_equals_the_layer_of_transformers_without_it(spec):
    module = seeded(txmodels.mamba2.Mamba2(spec))
    check_left_padding(module, original(spec, module), spec.states.values(), random(B, 9, W))
