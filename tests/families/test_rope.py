"""Computed positions are transformers' to the bit, but for functions whose bits depend on the processor.

Of those, PyTorch's and its libraries' in float32 are below 1 ulp off, numpy's and C's in float64 within 4.
"""

import math
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from processors import PROFILES, environment
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from txexport.errors import CheckpointError, UnsupportedError
from txexport.families._config import Config
from txexport.families._elementary import exp, power, sin_cos
from txexport.families._rope import longest, promised, rotary
from txexport.families._sinusoid import halves, stretched

BIT = np.finfo(np.float32).eps  # relative size of the last bit of a float32
EPS = np.finfo(np.float64).eps
LENGTH = {"original_max_position_embeddings": 2048}
KINDS = {
    "default": {},
    "linear": {"factor": 4.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0} | LENGTH,
    "yarn": {"factor": 4.0} | LENGTH,
    "yarn, attention_factor": {"factor": 4.0, "attention_factor": 0.8} | LENGTH,
    "yarn, betas": {"factor": 4.0, "beta_fast": 20.0, "beta_slow": 0.5} | LENGTH,
    "yarn, betas of 0": {"factor": 4.0, "beta_fast": 0, "beta_slow": 0} | LENGTH,
    "yarn, mscale": {"factor": 40.0, "mscale": 0.7, "mscale_all_dim": 1.3} | LENGTH,
    "yarn, mscale alone": {"factor": 40.0, "mscale": 0.7} | LENGTH,
    "yarn, not truncated": {"factor": 4.0, "truncate": False} | LENGTH,
    "yarn, truncated by null": {"factor": 4.0, "truncate": None} | LENGTH,
    "yarn, factor of lengths": {"factor": None} | LENGTH,
    "yarn, all positions": {"factor": 4.0},
    "longrope": LENGTH,
}


def frequencies(head_dim: int, theta: float, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies of txexport and transformers, float32; the attention factors must be equal."""
    values, (kind, *_) = {"rope_theta": theta} | KINDS[kind], kind.split(",")
    values["rope_type"] = kind
    if kind == "longrope":
        stretch = np.linspace(1, 3, head_dim // 2)
        values |= {"short_factor": stretch.tolist(), "long_factor": (9 * stretch).tolist()}
    sizes = {"hidden_size": 2 * head_dim, "num_attention_heads": 2, "max_position_embeddings": 8192}
    original = LlamaConfig(**sizes, rope_parameters=values)
    compute = LlamaRotaryEmbedding.compute_default_rope_parameters
    expected, scale = (compute if kind == "default" else ROPE_INIT_FUNCTIONS[kind])(original)
    found = rotary(Config({"rope_parameters": values, **sizes}, Path("config.json")), head_dim, long=True)
    assert found.scale == pytest.approx(scale, rel=4 * EPS, abs=0)  # two logarithms, and the rest
    return np.array(found.frequencies, np.float32), expected.to(torch.float32).numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theta", [1e4, 5e5, 1e6])
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128])
def test_frequencies_are_bit_equal_but_for_the_power(head_dim, theta, kind, monkeypatch):
    """PyTorch's float32 power differs between processors; with the nearest one everything is equal."""
    monkeypatch.setattr(torch.Tensor, "__rpow__", lambda exponents, base: rounded(power, base, exponents))
    found, expected = frequencies(head_dim, theta, kind)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("head_dim", "theta"), [(64, 1e4), (128, 1e4), (128, 5e5)])
def test_frequencies_of_well_known_models_are_those_of_pytorch(head_dim, theta):
    """TinyLlama, Mistral and Llama 2, Llama 3: a power below 1 ulp off is at most the next number."""
    found, expected = frequencies(head_dim, theta, "default")
    bound = BIT * found + np.spacing(found)  # of the power, then of rounding the quotient
    assert (np.abs(found.astype(np.float64) - expected) <= bound).all()


def test_base_that_has_no_powers_is_refused():
    for theta in (0.0, -1e4, float("inf"), float("nan")):
        with pytest.raises(CheckpointError, match=r"'rope_theta' is .*, expected a (finite )?number"):
            rotary(Config({"rope_theta": theta}, Path("config.json")), 8)


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
    assert found.scale == math.sqrt(1.5)
    with pytest.raises(CheckpointError, match="a list of factors has 2 values, expected 4"):
        rotary(config, 8, long=True)


@pytest.mark.parametrize(
    ("most", "values", "limit"),
    [
        (32768, {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        (40960, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        (131072, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        (131072, {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32768}, 131072),
        (32768, {"rope_type": "yarn", "factor": 4.0}, 131072),
        (8192, {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 2048}, 8192),
        (8192, {"rope_type": "linear", "factor": 4.0}, 8192),
        (8192, {"rope_type": "dynamic", "factor": 4.0}, 8192),
    ],
)
def test_yarn_reaches_as_far_as_it_stretches(most, values, limit):
    """Model cards of Qwen 2.5 and 3 write the first two, those of others the third."""
    config = {"max_position_embeddings": most, "rope_scaling": values}
    assert longest(Config(config, Path("config.json"))) == limit


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"type": "dynamic", "factor": 2.5}, {"dynamic": 160}),
        (
            {"type": "dynamic", "alpha": 50.0, "factor": 1.0},
            {},
        ),  # Hunyuan's, a fixed change of the base
        ({"type": "su", "short_factor": [1.0], "long_factor": [4.0]}, {"longrope": 64}),
        ({"type": "su", "short_factor": [4.0], "long_factor": [4.0]}, {}),
        ({"type": "yarn", "factor": 4.0}, {}),
        ({"type": "linear", "factor": 4.0}, {}),
        (None, {}),
    ],
)
def test_what_config_json_promises_beyond_the_limit_is_known(values, told):
    given = {"rope_scaling": values, "max_position_embeddings": 64, "original_max_position_embeddings": 16}
    config = Config(given, Path("config.json"))
    assert promised(config, longest(config)) == told


@pytest.mark.parametrize("name", ["attn_factor", "extrapolation_factor"])
def test_what_other_software_reads_of_yarn_is_refused(name):
    values = {"rope_type": "yarn", "factor": 4.0, name: 0.5}
    config = {"max_position_embeddings": 64, "rope_scaling": values}
    with pytest.raises(UnsupportedError, match=rf"{name}=0\.5 is not supported; expected 1\.0"):
        rotary(Config(config, Path("config.json")), 8)


@pytest.mark.parametrize(
    "config", [{"partial_rotary_factor": 0.5}, {"rope_parameters": {"partial_rotary_factor": 0.5}}]
)
def test_part_of_a_head_is_refused_where_a_family_has_none(config):
    with pytest.raises(UnsupportedError, match=r"partial_rotary_factor=0\.5"):
        rotary(Config(config, Path("config.json")), 8)


def rounded(function, *values) -> torch.Tensor:
    """A float32 tensor of a function of Python numbers, for each of the last of `values`."""
    *before, last = values
    return torch.tensor([function(*before, x) for x in last.tolist()], dtype=torch.float32)


@pytest.mark.parametrize("shape", [(512, 512), (40, 47)])
def test_marian_sinusoids_are_the_originals(shape, monkeypatch):
    """To the bit with txexport's functions; with numpy's, within 4 ulp, to the bit or the one before."""
    original = MarianSinusoidalPositionalEmbedding(*shape)
    found, theirs = halves(shape), original.create_weight().numpy()
    angles = np.arange(shape[0])[:, None]  # none is larger: the largest frequency is 1
    assert (np.abs(found.astype(np.float64) - theirs) <= np.spacing(np.abs(found)) + angles * 9 * EPS).all()
    monkeypatch.setattr(np, "power", cache(power))
    monkeypatch.setattr(np, "sin", lambda angles: sin_cos(angles)[0])
    monkeypatch.setattr(np, "cos", lambda angles: sin_cos(angles)[1])
    assert np.array_equal(found, original.create_weight().numpy())


@pytest.mark.parametrize("shape", [(1026, 1024), (1026, 2048), (42, 48)])
def test_m2m_sinusoids_are_the_originals(shape, monkeypatch):
    """To the bit with txexport's functions; with PyTorch's within their rounding, a position per bit."""
    original = M2M100SinusoidalPositionalEmbedding.get_embedding
    found, theirs = stretched(shape, 1), original(*shape, 1).numpy()
    half = shape[1] // 2
    frequencies = np.exp(-np.log(1e4) * np.arange(half) / (half - 1))
    angles = np.arange(shape[0])[:, None] * np.concatenate([frequencies] * 2)
    # A frequency is the next number at most, a bit of the angle, whose own rounding may then be another one;
    # a sine of at most 1 is off by half a bit of ours and less than one of theirs.
    assert (np.abs(found.astype(np.float64) - theirs) <= angles * 2 * BIT + BIT).all()
    monkeypatch.setattr(torch, "exp", lambda steps: rounded(exp, steps))
    for place, name in enumerate(("sin", "cos")):
        ours = partial(lambda place, x: torch.from_numpy(sin_cos(x.double().numpy())[place]).float(), place)
        monkeypatch.setattr(torch, name, ours)
    assert np.array_equal(found, original(*shape, 1).numpy())


def test_sines_and_cosines_are_right_to_the_last_bits():
    quarters = np.arange(-2000, 2000) * np.pi / 4
    angles = np.concatenate([np.arange(0, 1e6, 17.3), np.arange(2000.0), quarters])
    for x, sine, cosine in zip(angles, *sin_cos(angles), strict=True):
        assert abs(sine - math.sin(x)) <= 2e-16 + EPS  # ours, and two bits of C's
        assert abs(cosine - math.cos(x)) <= 2e-16 + EPS


TABLES = """
import hashlib
import numpy as np
from txexport.families import _alibi, _elementary, _rope, _sinusoid
numbers = [n / 7 for n in range(1, 999)]
tables = [
    _sinusoid.halves((512, 511)),
    _sinusoid.stretched((1026, 1024), 1),
    _rope.plain_frequencies(500000.0, 128),
    _alibi.geometric(112),
    _alibi.halving(28, 8),
    *_elementary.sin_cos(np.arange(100_000) * 0.37),
    [_elementary.exp(-x) for x in numbers],
    [_elementary.log(x) for x in numbers],
    [_elementary.power(x, 0.3) for x in numbers],
]
print(hashlib.sha256(b"".join(np.asarray(table).tobytes() for table in tables)).hexdigest()[:16])
"""


@pytest.mark.parametrize("profile", PROFILES)
def test_tables_have_the_same_bits_on_every_processor(profile):
    """All that export computes, in float64 where it is stored so: a different bit is a different bundle."""
    done = subprocess.run([sys.executable, "-c", TABLES], env=environment(profile), capture_output=True)
    assert done.stdout.decode().strip() == "f99865b4a62a3de7", done.stderr.decode()


EXPORTS = """
import hashlib, sys
from pathlib import Path
from txexport import export
for n, source in enumerate(sys.argv[2:]):
    out = Path(sys.argv[1]) / str(n)
    export(source, out)
    for file in sorted(path for path in out.rglob("*") if path.is_file()):
        print(n, file.relative_to(out), hashlib.sha256(file.read_bytes()).hexdigest())
"""


def test_export_writes_the_same_bytes_on_every_processor(checkpoint_of, tmp_path):
    """Families that compute: sinusoids, frequencies, slopes, scales."""
    families = ("marian", "m2m_100", "bloom")
    sources = [str(checkpoint_of(name)) for name in families]
    said = {}
    for profile in ("oldest", "newest"):
        (tmp_path / profile).mkdir()
        command = [sys.executable, "-c", EXPORTS, str(tmp_path / profile), *sources]
        done = subprocess.run(command, env=environment(profile), capture_output=True, text=True, check=True)
        said[profile] = done.stdout.splitlines()
    assert len(said["newest"]) > 3 * len(families)
    assert said["oldest"] == said["newest"]
