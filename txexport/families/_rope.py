"""Rotary frequencies as config.json describes them, in the forms of transformers 4 and 5."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from txexport.errors import CheckpointError, UnsupportedError
from txexport.families._config import LONGEST, Config
from txexport.families._elementary import log, power
from txexport.spec import RotarySpec

KINDS = ("default", "linear", "dynamic", "llama3", "yarn")
LONG = "longrope"  # families that read "longrope"


def plain_frequencies(theta: float, size: int) -> tuple[float, ...]:
    """Inverse frequencies for `size` rotary dimensions of a head (Su et al. 2021, 3.4.2)."""
    return tuple((1 / _periods(theta, size)).tolist())


def _periods(theta: float, size: int) -> np.ndarray:
    """theta to the powers 0, 2/size, 4/size ... in float32.

    The power is rounded once, to the nearest number, which is the ideal of PyTorch's float32 power: that
    differs in a last bit here and there, in other places on another processor. A bit matters: at position
    1000 it changes an angle by 6e-5.
    """
    powers = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    base = float(np.float32(theta))
    return np.array([power(base, exponent) for exponent in powers.tolist()], np.float32)


def rotary(
    config: Config,
    head_dim: int,
    *,
    theta: str = "rope_theta",
    fraction: str | None = None,
    default: float = 1.0,
    long: bool = False,
) -> RotarySpec:
    """Inverse frequencies for heads of `head_dim`, with rope scaling applied.

    `theta` and `fraction` are the family's names of the two values that newer files store beside the scaling,
    and `default` is the fraction of a head that rotates where none is given; without such a name the full
    head rotates. "dynamic" rescales only sequences beyond max_position_embeddings, which is the limit of the
    bundle, so that its frequencies are the unscaled ones. "longrope" has short factors, and long factors for
    longer sequences: a checkpoint restricted to the latter has them in both places
    (`checkpoints/rope_factors.py`). It is read for families that are `long`, whose limit is `longest`. Raises
    UnsupportedError for another kind.
    """
    config.check_width("a head", head_dim)
    values, kind = scaling(config)
    kinds = (*KINDS, LONG) if long else KINDS
    if kind not in kinds:
        known = ", ".join(kinds)
        raise UnsupportedError(f"{config.path}: rope_type '{kind}' is not supported; expected one of {known}")
    if fraction is None:
        for place in (config, values):
            place.expect(partial_rotary_factor=1.0)
    base = values.number("rope_theta", config.number(theta, 10000.0))
    if not 0 < base < math.inf:
        raise CheckpointError(f"{config.path}: '{theta}' is {base}, expected a number above 0")
    share = values.number("partial_rotary_factor", config.number(fraction or "", default))
    if not 0 < share <= 1:
        raise CheckpointError(
            f"{config.path}: partial_rotary_factor is {share}, expected more than 0 and at most 1"
        )
    beyond = np.array([])
    try:
        with np.errstate(all="ignore"):
            periods = _periods(base, int(head_dim * share))
            frequencies, scale = _scaled(periods, base, kind, values, config)
            if _is_switched(values, kind):
                beyond = _stretched("long_factor", periods, values)
    except (ArithmeticError, ValueError):  # quotients and logarithms
        frequencies, scale = np.array([math.nan]), 1.0
    if not (np.isfinite([*frequencies, *beyond]).all() and math.isfinite(scale)):
        raise CheckpointError(
            f"{config.path}: RoPE of type '{kind}' has no finite frequencies with these values"
        )
    result = RotarySpec(tuple(frequencies.tolist()), scale=scale)
    if not len(beyond):
        return result
    length = _original_length(values, config)
    return replace(result, long_frequencies=tuple(beyond.tolist()), short_length=length)


def proportional(config: Config, head_dim: int) -> RotarySpec:
    """The frequencies of a full head, of which only the first share rotates (Gemma Team 2026).

    `config` is the table of rope_parameters. The other pairs do not turn: their frequency is 0.
    """
    share, factor = config.number("partial_rotary_factor", 1.0), config.number("factor", 1.0)
    base = config.number("rope_theta", 10000.0)
    if not 0 < share <= 1 or not 0 < base < math.inf or factor == 0:
        raise CheckpointError(
            f"{config.path}: partial_rotary_factor is {share}, rope_theta {base} and factor {factor}; "
            "expected more than 0 and at most 1, more than 0, and not 0"
        )
    config.check_width("a head", head_dim)
    turning = int(share * head_dim // 2)
    frequencies = np.zeros(head_dim // 2, np.float32)
    frequencies[:turning] = 1 / _periods(base, head_dim)[:turning] / np.float32(factor)
    return RotarySpec(tuple(frequencies.tolist()))


def of_layers(
    config: Config, kind: str, head_dim: int, defaults: Mapping[str, Mapping[str, Any]]
) -> RotarySpec:
    """RoPE of a kind of layers; `defaults` are the tables of each kind where config.json has none."""
    tables = config.table("rope_parameters")
    table = tables.table(kind) if tables.values else tables.replaced(**defaults[kind])
    if not isinstance(table.values.get("rope_theta"), int | float):
        raise CheckpointError(
            f"{config.path}: rope_parameters has no rope_theta of {kind}, expected a number"
        )
    if table.text("rope_type", "default") == "proportional":
        return proportional(table, head_dim)
    table.expect(truncate=True)  # the original ignores it in a table per layer type
    return rotary(config.replaced(rope_parameters=dict(table.values), rope_scaling=None), head_dim)


def _scaled(
    periods: np.ndarray, base: float, kind: str, values: Config, config: Config
) -> tuple[np.ndarray, float]:
    """Inverse frequencies and attention factor, in float32 and the original's order of operations."""
    if kind == "linear":
        return 1 / periods / np.float32(values.number("factor")), 1.0
    if kind == "llama3":
        return _llama3(1 / periods, values, config), 1.0
    if kind == "yarn":
        return _yarn(periods, base, values, config)
    if kind == LONG:
        return _longrope(periods, values, config)
    return 1 / periods, 1.0


def longest(config: Config, default: int | None = None) -> int:
    """The maximum sequence length that a model is exported for: max_position_embeddings, or `default`.

    With "longrope", at most the range of the short factors where the long ones differ: a longer sequence
    would rotate its earlier tokens by other angles, which a cache cannot follow. With "yarn", at least the
    length that the original one is stretched to; not all published files raise max_position_embeddings.
    """
    values, kind = scaling(config)
    most = config.integer("max_position_embeddings", default)
    if most < 1:
        raise CheckpointError(f"{config.path}: 'max_position_embeddings' is {most}, expected at least 1")
    if _is_switched(values, kind):
        return min(most, _original_length(values, config))
    if kind == "yarn":
        length = _original_length(values, config)
        return max(most, int(min(values.number("factor", most / length) * length, LONGEST)))
    return most


def promised(config: Config, limit: int) -> dict[str, int]:
    """The longest sequence that config.json promises, by its kind of scaling; {} where `limit` is no less."""
    values, kind = scaling(config)
    if kind not in (LONG, "dynamic"):
        return {}
    grown = values.number("factor", 1.0) if kind == "dynamic" else 1
    most = int(min(config.integer("max_position_embeddings") * grown, LONGEST))
    return {kind: most} if most > limit else {}


def scaling(config: Config) -> tuple[Config, str]:
    """The rope scaling of config.json, and its kind by the current name."""
    values = config.table("rope_scaling" if config.values.get("rope_scaling") else "rope_parameters")
    kind = values.text("rope_type", values.text("type", "default"))
    return values, LONG if "short_factor" in values.values else kind  # older files say "su" and "yarn"


def _original_length(values: Config, config: Config) -> int:
    name = "original_max_position_embeddings"
    return config.integer(name, values.integer(name, config.integer("max_position_embeddings")))


def _longrope(periods: np.ndarray, values: Config, config: Config) -> tuple[np.ndarray, float]:
    """LongRoPE's inverse frequencies at the original length, and attention factor (Ding et al. 2024, 3.2)."""
    length = _original_length(values, config)
    factor = values.number("factor", config.integer("max_position_embeddings") / length)
    grown = math.sqrt(1 + log(factor) / log(length)) if factor > 1 else 1.0
    return _stretched("short_factor", periods, values), values.number("attention_factor", grown)


def _is_switched(values: Config, kind: str) -> bool:
    """Tell whether longer sequences use other factors than shorter ones."""
    return kind == LONG and values.values.get("long_factor") != values.values["short_factor"]


def _stretched(name: str, periods: np.ndarray, values: Config) -> np.ndarray:
    """Inverse frequencies divided by a list of factors."""
    factors = values.numbers(name)
    if len(factors) != len(periods):
        raise CheckpointError(
            f"{values.path}: a list of factors has {len(factors)} values, expected {len(periods)}"
        )
    return 1 / (np.array(factors, np.float32) * periods)


def _llama3(plain: np.ndarray, values: Config, config: Config) -> np.ndarray:
    """Low frequencies divided by `factor`, high ones unchanged, those between interpolated (Llama 3.1)."""
    factor, length = values.number("factor"), _original_length(values, config)
    low, high = values.number("low_freq_factor"), values.number("high_freq_factor")
    waves = 2 * math.pi * (1 / plain)  # in PyTorch's order of division
    share = (length * (1 / waves) - low) / (high - low)
    blended = (1 - share) * plain / np.float32(factor) + share * plain
    return np.where(waves > length / low, plain / factor, np.where(waves < length / high, plain, blended))


def _yarn(periods: np.ndarray, theta: float, values: Config, config: Config) -> tuple[np.ndarray, float]:
    """Inverse frequencies and attention factor of YaRN (Peng et al. 2023, 3.2 to 3.4)."""
    size = 2 * len(periods)
    length = _original_length(values, config)
    factor = values.number("factor", config.number("max_position_embeddings") / length)

    def turning(rotations: float) -> float:
        """The index of the dimension pair with that many rotations within the original length."""
        return size * log(length / (rotations * 2 * math.pi)) / (2 * log(theta))

    # Keys of other software, which transformers ignores
    values.expect(attn_factor=1.0, extrapolation_factor=1.0)
    fast, slow = values.number("beta_fast", 0.0) or 32.0, values.number("beta_slow", 0.0) or 1.0
    low, high = turning(fast), turning(slow)
    if "truncate" not in values.values or values.flag("truncate", False):  # null means false
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    ramp = (np.arange(size // 2, dtype=np.float32) - low) / (high - low if high != low else 0.001)
    unscaled = 1 - np.clip(ramp, 0, 1)
    blended = 1 / (np.float32(factor) * periods) * (1 - unscaled) + 1 / periods * unscaled
    return blended, values.number("attention_factor", _attention_factor(factor, values))


def _attention_factor(factor: float, values: Config) -> float:
    mscale, mscale_all = values.number("mscale", 0.0), values.number("mscale_all_dim", 0.0)
    return (
        _grown(factor, mscale) / _grown(factor, mscale_all) if mscale and mscale_all else _grown(factor, 1.0)
    )


def _grown(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * log(factor) + 1


def latent_scale(config: Config, head_dim: int) -> float:
    """DeepSeek's attention scale; with YaRN, `mscale_all_dim` multiplies it."""
    values, kind = scaling(config)
    mscale_all_dim = values.number("mscale_all_dim", 0.0) if kind != "default" else 0.0
    grown = _grown(values.number("factor"), mscale_all_dim) if mscale_all_dim else 1.0
    return head_dim**-0.5 * grown * grown
