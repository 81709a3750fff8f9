"""Rotary scaling of llama.cpp, in the terms of config.json."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from txexport.checkpoints.gguf.metadata import Metadata
from txexport.errors import CheckpointError, UnsupportedError

FREQUENCIES, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
FACTORS = (FREQUENCIES, LONG, SHORT)

# Llama 3.1's scaling: in every published file but for the factor and the original length.
LOW, HIGH = 1.0, 4.0
LENGTHS = tuple(2**power for power in range(3, 21))
NEAR = 1e-4  # tolerance of factors computed in float32, which a factor of 32 makes 32 times coarser


def rope(metadata: Metadata, head_dim: int, factors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """rope_theta and rope_scaling; `factors` are the tensors of FACTORS in the file.

    Raises UnsupportedError for an unsupported kind, CheckpointError for factors that do not fit a head.
    """
    theta = metadata.number("rope.freq_base", 10000.0)
    width = metadata.integer("rope.dimension_count", head_dim)
    for name, numbers in factors.items():
        if numbers.shape != (width // 2,) or not (np.isfinite(numbers).all() and (numbers > 0).all()):
            raise CheckpointError(f"{metadata.file}: '{name}' does not have {width // 2} factors above 0")
    scaling = _scaling(metadata, factors, theta)
    share = {} if width == head_dim else {"partial_rotary_factor": width / head_dim}
    return {"rope_theta": theta, "rope_scaling": scaling, **share}


def _scaling(metadata: Metadata, factors: Mapping[str, np.ndarray], theta: float) -> dict[str, Any] | None:
    old = metadata.number("rope.scale_linear", 1.0)  # in files from 2023
    kind = metadata.text("rope.scaling.type", "none" if old == 1.0 else "linear")
    factor = metadata.number("rope.scaling.factor", old)
    original = metadata.integer("rope.scaling.original_context_length", metadata.integer("context_length"))
    attention = metadata.number("rope.scaling.attn_factor", 1.0)
    if kind == "longrope" or LONG in factors:
        return _longrope(metadata, factors, original, attention)
    if attention != 1.0:
        raise UnsupportedError(f"{metadata.file}: rope scaling '{kind}' with attn_factor {attention}")
    if FREQUENCIES in factors:
        if kind != "none":
            raise UnsupportedError(f"{metadata.file}: rope scaling '{kind}' beside '{FREQUENCIES}'")
        return _divided(factors[FREQUENCIES].astype(np.float64), theta, original)
    if kind == "none":
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind == "yarn":
        return _yarn(metadata, factor, original)
    raise UnsupportedError(
        f"{metadata.file}: rope scaling '{kind}' is not supported; expected none, linear, yarn or longrope"
    )


def _yarn(metadata: Metadata, factor: float, original: int) -> dict[str, Any]:
    values = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    for ours, theirs in (
        ("attention_factor", "attn"),
        ("beta_fast", "beta_fast"),
        ("beta_slow", "beta_slow"),
    ):
        for key in (f"rope.scaling.yarn_{theirs}_factor", f"rope.scaling.yarn_{theirs}"):
            if key in metadata:
                values[ours] = metadata.number(key)
    if metadata.number("rope.scaling.yarn_ext_factor", 1.0) != 1.0:
        raise UnsupportedError(f"{metadata.file}: rope scaling 'yarn' with yarn_ext_factor")
    return values


def _longrope(
    metadata: Metadata, factors: Mapping[str, np.ndarray], original: int, attention: float
) -> dict[str, Any]:
    if not {LONG, SHORT} <= factors.keys():
        raise CheckpointError(f"{metadata.file}: rope scaling 'longrope' without '{LONG}' and '{SHORT}'")
    if original < 2:
        raise CheckpointError(f"{metadata.file}: rope scaling 'longrope' of a context of {original}")
    values = {
        "rope_type": "longrope",
        "short_factor": _decimals(factors[SHORT]),
        "long_factor": _decimals(factors[LONG]),
        "original_max_position_embeddings": original,
    }
    grown = metadata.integer("context_length") / original
    usual = math.sqrt(1 + math.log(grown) / math.log(original)) if grown > 1 else 1.0
    return (
        values if math.isclose(attention, usual, rel_tol=NEAR) else values | {"attention_factor": attention}
    )


def _divided(factors: np.ndarray, theta: float, length: int) -> dict[str, Any] | None:
    """The scaling that divides each frequency by a factor of its own: Llama 3's if the factors are these.

    The parameters of Llama 3's scaling are not in the file; they are searched for. Other factors are those of
    "longrope" for short sequences.
    """
    if (factors == 1).all():
        return None
    size = 2 * len(factors)
    with np.errstate(all="ignore"):  # from a theta that is refused later
        waves = 2 * math.pi * np.float64(theta) ** (np.arange(0, size, 2) / size)
    factor = float(factors.max())
    for original in LENGTHS:
        with np.errstate(all="ignore"):
            share = (original / waves - LOW) / (HIGH - LOW)
            stretched = 1 / ((1 - share) / factor + share)
        computed = np.where(waves < original / HIGH, 1, np.where(waves > original / LOW, factor, stretched))
        if np.allclose(computed, factors, rtol=NEAR, atol=0):
            return {
                **{"rope_type": "llama3", "factor": float(str(np.float32(factor)))},
                **{"low_freq_factor": LOW, "high_freq_factor": HIGH},
                "original_max_position_embeddings": original,
            }
    decimals = _decimals(factors.astype(np.float32))
    return {
        **{"rope_type": "longrope", "short_factor": decimals, "long_factor": decimals},
        **{"attention_factor": 1.0, "factor": 1.0, "original_max_position_embeddings": length},
    }


def _decimals(numbers: np.ndarray) -> list[float]:
    return [float(str(number)) for number in numbers.astype(np.float32)]
