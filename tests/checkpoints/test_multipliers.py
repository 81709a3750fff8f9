"""Multipliers that are part of a checkpoint's architecture, and of our weights."""

import numpy as np
import pytest
import tiny_checkpoint

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_map import Take
from txexport.errors import TxexportError

FACTORS = ((2, 0.5), (1, 3.0), (3, 1.0))


@pytest.mark.parametrize("shape", [(6, 4), (6,), (6, 1, 3)], ids=str)
def test_rows_times_their_factors_and_back(shape):
    take, stored = Take("a", times=FACTORS), np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    numbers = take.cut(stored)
    each = np.array([0.5, 0.5, 3, 1, 1, 1], np.float32).reshape(6, *[1] * (len(shape) - 1))
    np.testing.assert_array_equal(numbers, stored * each)
    assert numbers.dtype == np.float32
    assert not take.plain
    copy = np.zeros_like(stored)
    take.paste(copy, numbers)
    np.testing.assert_array_equal(copy, stored)


def weights(folder, **config) -> dict[str, np.ndarray]:
    """The parameters of a tiny Falcon-H1 with these settings, from the same tensors."""
    tiny_checkpoint.save(folder, "falcon_h1", **config)
    checkpoint = Checkpoint(folder)
    resolved = families.resolve(checkpoint)
    return {name: np.concatenate([*one.rows(checkpoint)]) for name, one in resolved.weights.items()}


@pytest.mark.parametrize(
    ("key", "value", "parameter", "rows"),
    [
        ("key_multiplier", 0.35, "attention.k.weight", slice(None)),
        ("attention_in_multiplier", 0.6, "attention.v.weight", slice(None)),
        ("ssm_multipliers", [0.5, 0.8, 0.7, 0.75, 0.9], "beside.project.weight", slice(140, 160)),
        ("mlp_multipliers", [0.4, 1.3], "feed_forward.gate.weight", slice(None)),
        ("ssm_out_multiplier", 0.2, "beside.output.weight", slice(None)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_half_a_multiplier_is_half_the_weight(key, value, parameter, rows, tmp_path):
    before, after = (weights(tmp_path / name, **more) for name, more in (("a", {}), ("b", {key: value})))
    name = f"decoder.layers.1.{parameter}"
    expected = before[name].copy()
    expected[rows] *= 0.5
    np.testing.assert_allclose(after[name], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "config", [{"ssm_multipliers": [1.0, 0.5]}, {"mlp_multipliers": [1.0, 0.5, 2.0]}], ids=str
)
def test_lists_of_another_length(config, tmp_path):
    [key] = config
    tiny_checkpoint.save(tmp_path, "falcon_h1")
    text = (tmp_path / "config.json").read_text()
    start = text.index(f'"{key}"')
    end = text.index("]", start) + 1
    (tmp_path / "config.json").write_text(f'{text[:start]}"{key}": {config[key]}{text[end:]}')
    with pytest.raises(TxexportError, match=key):
        families.resolve(Checkpoint(tmp_path))
