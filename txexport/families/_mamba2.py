"""Mamba-2 layers, as the families that have them name their settings and tensors."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from txexport.checkpoints.weight_map import Rules
from txexport.errors import UnsupportedError
from txexport.families import _causal
from txexport.families._config import Config
from txexport.spec import Mamba2Spec, NormKind, NormSpec

UNLIMITED = (
    None,
    [0, inf],
    (0, inf),  # as the config object has it
    [0, {"__float__": "Infinity"}],  # as transformers 5 writes it
)


def layer(config: Config, width: int, inner: int | None = None) -> Mamba2Spec:
    """A layer by the settings of config.json whose names begin with mamba; `inner` is the width of all heads.

    Raises UnsupportedError for a time_step_limit, which transformers applies to prompts but not to steps of
    one token.
    """
    limit = config.values.get("time_step_limit")
    if limit not in UNLIMITED:
        raise UnsupportedError(
            f"{config.path}: time_step_limit is {limit}, expected no limit: transformers applies one to "
            "prompts, but not to steps of one token"
        )
    _causal.expect_silu(config, "a Mamba-2 layer")
    heads = config.integer("mamba_n_heads", 128)
    inner = config.integer("mamba_expand", 2) * width if inner is None else inner
    head_dim = config.head_dim(inner, heads)
    if config.values.get("mamba_d_head") != "auto":
        config.expect(mamba_d_head=head_dim)
    return Mamba2Spec(
        width,
        heads,
        head_dim,
        config.integer("mamba_d_state", 256),
        config.integer("mamba_n_groups", 1),
        config.integer("mamba_d_conv", 4),
        NormSpec(inner, config.number("rms_norm_eps"), NormKind.RMS),
        bias=config.flag("mamba_proj_bias", False),
        convolution_bias=config.flag("mamba_conv_bias", True),
    )


def renamed(config: Config, settings: Mapping[str, tuple[str, Any]]) -> Config:
    """The settings by Bamba's names; `settings` has these, and the default, by the family's own names.

    Raises CheckpointError for a wrong value, by the name that config.json has.
    """
    readers: dict[type, Callable[[str, Any], Any]] = {bool: config.flag, int: config.integer}
    readers[float] = config.number
    return config.replaced(
        **{
            name: readers.get(type(default), config.values.get)(key, default)
            for key, (name, default) in settings.items()
        }
    )


def rules(layer: str, source: str) -> Rules:
    """Tensor names of the Mamba-2 layers of `layer`."""
    return {
        f"{layer}.project.*": f"{source}.in_proj.*",
        f"{layer}.convolution.*": f"{source}.conv1d.*",
        f"{layer}.rate": f"{source}.A_log",
        f"{layer}.step": f"{source}.dt_bias",
        f"{layer}.skip": f"{source}.D",
        f"{layer}.gated_norm.*": f"{source}.norm.*",
        f"{layer}.output.*": f"{source}.out_proj.*",
    }
