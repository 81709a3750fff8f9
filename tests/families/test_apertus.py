"""Apertus's activation has numbers that no checkpoint changes; another one is refused."""

import numpy as np
import pytest
import safetensors.numpy
import tiny_checkpoint

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import UnsupportedError
from txexport.families import resolve


def stored(folder, name, value):
    """A tiny checkpoint with another value of that name in its second layer."""
    tiny_checkpoint.save(folder, "apertus")
    file = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    key = f"model.layers.1.mlp.act_fn.{name}"
    assert key in tensors
    safetensors.numpy.save_file(tensors | {key: np.array(value, np.float32)}, file, {"format": "pt"})
    return Checkpoint(folder)


def test_the_bound_as_bfloat16_rounds_it(tmp_path):
    assert resolve(stored(tmp_path, "eps", -9.98377799987793e-07)).spec.decoder.num_layers == 2


@pytest.mark.parametrize(("name", "value"), [("beta", 0.4), ("eps", -1e-3), ("eps", np.nan)])
def test_other_numbers_are_refused(name, value, tmp_path):
    checkpoint = stored(tmp_path, name, value)
    with pytest.raises(UnsupportedError, match=rf"layers\.1\.mlp\.act_fn\.{name} is .*, expected"):
        resolve(checkpoint)
