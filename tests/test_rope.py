"""Computed positions against transformers', to the last bit or the one before."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from txexport.errors import CheckpointError, UnsupportedError
from txexport.families._config import Config
from txexport.families._rope import longest, rotary
from txexport.families._sinusoid import halves, stretched

LENGTH = {"original_max_position_embeddings": 2048}
KINDS = {
    "default": {},
    "linear": {"factor": 4.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0} | LENGTH,
    "yarn": {"factor": 4.0} | LENGTH,
    "longrope": LENGTH,
}


def frequencies(head_dim: int, theta: float, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Ours and transformers', float32; the factors of attention must be equal."""
    values = {"rope_type": kind, "rope_theta": theta} | KINDS[kind]
    if kind == "longrope":
        stretch = np.linspace(1, 3, head_dim // 2)
        values |= {"short_factor": stretch.tolist(), "long_factor": (9 * stretch).tolist()}
    sizes = {"hidden_size": 2 * head_dim, "num_attention_heads": 2, "max_position_embeddings": 8192}
    original = LlamaConfig(**sizes, rope_parameters=values)
    compute = LlamaRotaryEmbedding.compute_default_rope_parameters
    expected, scale = (compute if kind == "default" else ROPE_INIT_FUNCTIONS[kind])(original)
    found = rotary(Config({"rope_parameters": values, **sizes}, Path("config.json")), head_dim, long=True)
    assert found.scale == scale
    return np.array(found.frequencies, np.float32), expected.to(torch.float32).numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theta", [1e4, 5e5, 1e6])
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128])
def test_frequencies_are_bit_equal_but_for_a_power_of_pytorch(head_dim, theta, kind):
    """PyTorch's float32 power is off by a last bit now and then; nothing else may differ."""
    plain, original = frequencies(head_dim, theta, "default")
    assert np.abs(plain / original.astype(np.float64) - 1).max() < np.finfo(np.float32).eps
    same = plain == original
    assert (~same).sum() <= 1
    found, expected = frequencies(head_dim, theta, kind)
    assert np.array_equal(found[same], expected[same])
    assert found == pytest.approx(expected, rel=1e-6, abs=0)


@pytest.mark.parametrize(("head_dim", "theta"), [(64, 1e4), (128, 1e4), (128, 5e5)])
def test_frequencies_of_well_known_models_are_bit_equal(head_dim, theta):
    """TinyLlama, Mistral and Llama 2, Llama 3."""
    found, expected = frequencies(head_dim, theta, "default")
    assert np.array_equal(found, expected)


def test_scaling_of_transformers_4_wins_over_that_of_5():
    config = {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 1e4}
    plain = rotary(Config({}, Path("config.json")), 8)
    found = rotary(Config(config, Path("config.json")), 8)
    assert found.frequencies == tuple(f / 2 for f in plain.frequencies)


@pytest.mark.parametrize("old", ["su", "yarn"])
def test_longrope_is_known_by_its_factors_and_ends_where_the_long_ones_begin(old):
    scaling = {"type": old, "short_factor": [1.0, 2.0], "long_factor": [4.0, 8.0]}
    values = {"rope_scaling": scaling, "max_position_embeddings": 64, "original_max_position_embeddings": 16}
    config = Config(values, Path("config.json"))
    assert longest(config) == 16
    found, plain = rotary(config, 4, long=True), rotary(Config({}, Path("config.json")), 4)
    assert found.frequencies == tuple(f / n for f, n in zip(plain.frequencies, (1, 2), strict=True))
    assert found.scale == (1 + np.log(4) / np.log(16)) ** 0.5
    with pytest.raises(CheckpointError, match="'short_factor' has 2 numbers, expected 4"):
        rotary(config, 8, long=True)


@pytest.mark.parametrize(
    "config", [{"partial_rotary_factor": 0.5}, {"rope_parameters": {"partial_rotary_factor": 0.5}}]
)
def test_part_of_a_head_is_refused_where_a_family_has_none(config):
    with pytest.raises(UnsupportedError, match=r"partial_rotary_factor=0\.5"):
        rotary(Config(config, Path("config.json")), 8)


@pytest.mark.parametrize("shape", [(512, 512), (40, 47)])
def test_marian_sinusoids_are_the_originals_bits(shape):
    table = MarianSinusoidalPositionalEmbedding(*shape).create_weight().numpy()
    assert np.array_equal(halves(shape), table)


@pytest.mark.parametrize("shape", [(1026, 1024), (1026, 2048), (42, 48)])
def test_m2m_sinusoids_differ_by_last_bits_of_frequencies_only(shape):
    """PyTorch's float32 exponential is not always the nearest number, and place 1000 multiplies its bit."""
    original = M2M100SinusoidalPositionalEmbedding.get_embedding(*shape, 1).numpy()
    table = stretched(shape, 1)
    assert np.abs(table - original).max() < 2e-5
    assert (np.abs(table - original).max(axis=0) > 1e-6).mean() < 0.01
