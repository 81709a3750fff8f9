"""The only door to the transformers library: files of this machine, and no code of theirs.

Some checkpoints carry Python code that makes them what they are, and transformers asks its user whether to
run it. Whoever exports, proves or runs a checkpoint here is never asked: the answer is no.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

CACHE_NAMES = ("cache", "past_key_values")  # of keys and values: since transformers 5.24, and before


def from_pretrained(kind: str, folder: str | Path | None, **options: Any) -> Any:
    """Load a folder with `kind`, a transformers class; `options` are those of its from_pretrained.

    Raises ImportError without the library, and what it raises of files that it cannot read, or cannot read
    without their code.
    """
    import transformers

    safe = {"local_files_only": True, "trust_remote_code": False}
    return getattr(transformers, kind).from_pretrained(folder, **options | safe)


def model_from_pretrained(kind: str, folder: str | Path | None, **options: Any) -> Any:
    """As `from_pretrained` for a class of models, whose weights are never read from pickles.

    Without a folder, `options` have a config and a state_dict.
    """
    return from_pretrained(kind, folder, **options | {"use_safetensors": True})


def model_of_config(kind: str, config: Any) -> Any:
    """The model that `kind`, a class of the library or an automatic one, makes of a config, untrained."""
    import transformers

    named = getattr(transformers, kind)
    automatic = hasattr(named, "from_config")
    return named.from_config(config, trust_remote_code=False) if automatic else named(config)


def cache_parameter(forward: Callable[..., Any] | Collection[str]) -> str | None:
    """The parameter of a model's `forward` that takes a cache of keys and values; None where none does.

    Instead of the function its parameters' names will do.
    """
    names = inspect.signature(forward).parameters if callable(forward) else forward
    return next((name for name in CACHE_NAMES if name in names), None)


def cache_of(outputs: Mapping[str, Any]) -> Any:
    """The keys and values among a model's outputs. Raises AssertionError where there are none."""
    name = cache_parameter(outputs)
    if name is None:
        raise AssertionError(f"the original gives no keys and values, but {', '.join(outputs)}")
    return outputs[name]


def config_of(values: Mapping[str, Any]) -> Any:
    """A config of transformers with the values of a config.json, which stay as they are.

    The library writes into tables that it is given, as the theta into rope_scaling.
    """
    import transformers

    return transformers.AutoConfig.for_model(**deepcopy(dict(values)))
