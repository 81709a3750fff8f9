"""Selective state spaces: twins, loops over tokens, the layers of transformers, and rows in pieces."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.mamba
import txgraphs.selective_scan
import txmodels.mamba
import txmodels.selective_scan
from helpers.layer_pieces import check_layer, check_left_padding, check_pieces
from helpers.twins import check, random, seeded
from transformers import FalconMambaConfig, JambaConfig, MambaConfig
from transformers.models.falcon_mamba.modeling_falcon_mamba import FalconMambaMixer
from transformers.models.jamba.modeling_jamba import JambaMambaMixer
from transformers.models.mamba.modeling_mamba import MambaMixer

from txexport.spec import MambaSpec

B, W, MOST = 3, 12, 70
SPECS = {
    "plain": MambaSpec(W, 20, 5, 3, 4),
    "biases": MambaSpec(W, 24, 1, 2, 2, bias=True, convolution_bias=False),
    "norms": MambaSpec(W, 18, 6, 4, 3, norm_eps=1e-2),
    "scaled norms": MambaSpec(W, 24, 5, 4, 3, bias=True, norm_eps=1e-2, norm_scale=True),
}
EACH = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def by_token(x, steps, b, c, rate, state) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence number by number, in float64."""
    x, steps, b, c, rate, state = (one.double() for one in (x, steps, b, c, rate, state))
    outputs = []
    for token in range(x.shape[1]):
        share = torch.einsum("bi,id->bid", steps[:, token], rate).exp()
        state = state * share + torch.einsum("bi,bd->bid", x[:, token], b[:, token])
        outputs.append(torch.einsum("bid,bd->bi", state, c[:, token]))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("length", [1, 2, 65, 300])
def test_a_scan_equals_the_recurrence_in_float64(length):
    """Channels forget at rates from one of a thousand tokens to all at once."""
    rate = -torch.logspace(-3, 3, 20 * 5).reshape(20, 5)
    steps = random(B, length, 20).abs()
    b, c = random(B, length, 5), random(B, length + 1, 5)[:, 1:]
    inputs = [0.05 * random(B, length, 20) * steps, steps, b, c, rate, 0.05 * random(B, 20, 5)]
    ours = check(txmodels.selective_scan.selective_scan, txgraphs.selective_scan.selective_scan, *inputs)
    for number, exact in zip(ours, by_token(*inputs), strict=True):
        assert np.abs(number - exact.numpy()).max() < 1e-6 * exact.abs().max()


@EACH
@pytest.mark.parametrize("length", [1, 5, 67])
@pytest.mark.parametrize("picks", [None, [[0, 0], [2, 1], [1, 4]]], ids=["every token", "two of each row"])
def test_layer(spec, length, picks):
    module, function = txmodels.mamba.Mamba(spec), partial(txgraphs.mamba.mamba, spec)
    check_layer(spec, module, function, length, picks)


def original(spec: MambaSpec, module: torch.nn.Module) -> MambaMixer | FalconMambaMixer | JambaMambaMixer:
    """The layer of transformers with our weights: Falcon-Mamba's or Jamba's where there are norms."""
    if spec.norm_scale:
        config = JambaConfig(
            hidden_size=W,
            mamba_expand=spec.inner_size // W,
            mamba_d_state=spec.state_size,
            mamba_dt_rank=spec.step_rank,
            mamba_d_conv=spec.kernel,
            mamba_proj_bias=spec.bias,
            mamba_conv_bias=spec.convolution_bias,
            rms_norm_eps=spec.norm_eps,
            num_hidden_layers=1,
        )
        return loaded(JambaMambaMixer(config, 0).eval(), config, module)
    kind, build, more = MambaConfig, MambaMixer, {}
    if spec.norm_eps is not None:
        kind, build, more = FalconMambaConfig, FalconMambaMixer, {"mixer_rms_eps": spec.norm_eps}
    config = kind(
        hidden_size=W,
        intermediate_size=spec.inner_size,
        state_size=spec.state_size,
        time_step_rank=spec.step_rank,
        conv_kernel=spec.kernel,
        use_bias=spec.bias,
        use_conv_bias=spec.convolution_bias,
        num_hidden_layers=1,
        **more,
    )
    return loaded(build(config, 0, initialize_mixer_weights=False).eval(), config, module)


def loaded(layer, config, module: torch.nn.Module) -> MambaMixer | FalconMambaMixer | JambaMambaMixer:
    """The layer with our weights."""
    names = {"project": "in_proj", "convolution": "conv1d", "select": "x_proj", "step": "dt_proj"}
    names |= {"step_norm": "dt_layernorm", "b_norm": "b_layernorm", "c_norm": "c_layernorm"}
    names |= {"rate": "A_log", "skip": "D", "output": "out_proj"}
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
    module = seeded(txmodels.mamba.Mamba(spec))
    x, sizes = random(B, MOST, W), [4, 1, 21, MOST]
    check_pieces(module, original(spec, module), spec.states.values(), x, [MOST, 27, 5], sizes)


@EACH
@torch.no_grad()
def test_padding_on_the_left_equals_the_layer_of_transformers_without_it(spec):
    module = seeded(txmodels.mamba.Mamba(spec))
    check_left_padding(module, original(spec, module), spec.states.values(), random(B, 9, W))
