"""The only module that loads with transformers: from local files, and never with code from a checkpoint.

Some checkpoints contain Python code, and transformers asks the user whether to run it. Here the answer is
always no.
"""

import inspect
import warnings
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

SLOWER = "You'd better set embed_dim"  # a warning about the speed of the authors' CUDA kernel
CACHE_NAMES = (
    "cache",
    "past_key_values",
)  # names of the cache's argument: since transformers 5.24, and before


def from_pretrained(kind: str, folder: str | Path | None, **options: Any) -> Any:
    """Load a folder with `kind`, a transformers class; `options` are those of its from_pretrained.

    Raises ImportError without the library, and the library's exceptions for files that it cannot read, or
    cannot read without code from the checkpoint.
    """
    import transformers

    safe = {"local_files_only": True, "trust_remote_code": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", SLOWER)
        return getattr(transformers, kind).from_pretrained(folder, **options | safe)


def model_from_pretrained(kind: str, folder: str | Path | None, **options: Any) -> Any:
    """As `from_pretrained` for a class of models; weights are never read from pickles.

    Without a folder, `options` have a config and a state_dict.
    """
    return from_pretrained(kind, folder, **options | {"use_safetensors": True})


def model_of_config(kind: str, config: Any) -> Any:
    """An untrained model of the config, of `kind`, a class of the library or an automatic one."""
    import transformers

    named = getattr(transformers, kind)
    automatic = hasattr(named, "from_config")
    return named.from_config(config, trust_remote_code=False) if automatic else named(config)


def cache_parameter(forward: Callable[..., Any] | Collection[str]) -> str | None:
    """The parameter of a model's `forward` that takes a key-value cache; None if there is none.

    It also accepts the names of the parameters in place of the function.
    """
    names = inspect.signature(forward).parameters if callable(forward) else forward
    return next((name for name in CACHE_NAMES if name in names), None)


def cache_of(outputs: Mapping[str, Any]) -> Any:
    """The key-value cache among a model's outputs. Raises AssertionError if there is none."""
    name = cache_parameter(outputs)
    if name is None:
        raise AssertionError(f"the original returns no keys and values, but {', '.join(outputs)}")
    return outputs[name]


def config_of(values: Mapping[str, Any]) -> Any:
    """A config of transformers with the values of a config.json, which are not modified.

    The library writes into tables that it receives, for example the theta into rope_scaling.
    """
    import transformers

    return transformers.AutoConfig.for_model(**deepcopy(dict(values)))
