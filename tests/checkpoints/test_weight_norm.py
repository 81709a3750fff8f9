"""Weights that a checkpoint stores as a direction and norms, against PyTorch."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn.utils.parametrizations import weight_norm

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_map import Naming, Table, Take
from txexport.checkpoints.weight_resolution import resolve
from txexport.errors import CheckpointError

OLD = {".weight_g": ".parametrizations.weight.original0", ".weight_v": ".parametrizations.weight.original1"}
RULES = {
    "convolution.weight": Take(
        "conv.parametrizations.weight.original1", norms="conv.parametrizations.weight.original0"
    )
}
SHAPE = {"convolution.weight": (8, 4, 5)}


def weight_of(folder, tensors: dict[str, torch.Tensor]) -> np.ndarray:
    """The weight that a checkpoint of these tensors has."""
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    checkpoint = Checkpoint(folder)
    [weight] = resolve(Table(RULES, Naming(rename=OLD)), SHAPE, checkpoint).values()
    return np.concatenate([*weight.rows(checkpoint)])


def seeded() -> tuple[np.ndarray, dict[str, torch.Tensor]]:
    """A convolution's weight by PyTorch, and its direction and norms by the names of old files."""
    torch.manual_seed(0)
    convolution = weight_norm(torch.nn.Conv1d(8, 8, 5, groups=2), dim=2)
    norms, direction = (
        convolution.parametrizations.weight.original0,
        convolution.parametrizations.weight.original1,
    )
    torch.nn.init.normal_(norms)
    return convolution.weight.detach().numpy(), {"weight_g": norms.detach(), "weight_v": direction.detach()}


@pytest.mark.parametrize("renamed", [False, True])
def test_a_direction_and_norms_are_one_weight(renamed, tmp_path):
    expected, parts = seeded()
    names = {name: OLD[f".{name}"].removeprefix(".") if renamed else name for name in parts}
    weight = weight_of(tmp_path, {f"conv.{names[name]}": tensor for name, tensor in parts.items()})
    assert weight.dtype == np.float32
    np.testing.assert_allclose(weight, expected, rtol=3e-7, atol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight_g": None}, "missing: conv.parametrizations.weight.original0"),
        ({"weight_g": torch.ones(8, 1, 1)}, r"'conv.weight_g' is \(8, 1, 1\), expected \(1, 1, 5\)"),
        ({"weight_v": torch.zeros(8, 4, 5)}, "'conv.weight_v' with the norms 'conv.weight_g' holds NaN"),
        ({"weight_g": torch.full((1, 1, 5), torch.inf)}, "'conv.weight_g', which fills .* holds NaN or inf"),
    ],
)
def test_damage_is_named(change, message, tmp_path):
    _, parts = seeded()
    tensors = {f"conv.{name}": one for name, one in (parts | change).items() if one is not None}
    with pytest.raises(CheckpointError, match=message):
        weight_of(tmp_path, tensors)
