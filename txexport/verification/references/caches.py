"""The caches of the transformers library by the names of a graph's outputs."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from txexport.checkpoints import transformers_loading
from txexport.contracts import cache_names

STATE = "state"  # what RWKV has in place of a cache: a list of states (B,W,layers), in this order
OF_RWKV = ("channel_shift", "time_shift", "numerator", "denominator", "maximum")


def empty_cache(model: Any, stateful: bool, new_cache: Callable[..., Any]) -> dict[str, Any]:
    """Arguments with an empty cache. Raises AssertionError for a model that has no parameter for it."""
    if STATE in inspect.signature(model.forward).parameters:
        return {"use_cache": True}
    name = transformers_loading.cache_parameter(model.forward)
    if name is None:
        names = " or ".join(transformers_loading.CACHE_NAMES)
        raise AssertionError(f"{type(model).__name__}.forward has no parameter {names}")
    config = whole_windows(model.config) if stateful else None
    return {name: new_cache() if config is None else new_cache(config=config), "use_cache": True}


def cache_of(outputs: Mapping[str, Any]) -> Any:
    """The cache, or list of states, among a model's outputs. Raises AssertionError if there is none."""
    return outputs[STATE] if STATE in outputs else transformers_loading.cache_of(outputs)


def whole_windows(config: Any) -> Any:
    """The settings of the library's cache, without a window, so that it keeps every token.

    A cache without settings does so too, but has no states.
    """
    config = copy.deepcopy(config)
    for one in (config, config.get_text_config(decoder=True)):  # which may be a copy
        if getattr(one, "sliding_window", None) is not None:
            one.sliding_window = one.max_position_embeddings + 1  # a layer keeps one token less
    return config


def cached(cache: Any, part: str | None = None, states: Sequence[tuple[str, ...]] = ()) -> dict[str, Tensor]:
    """A transformers cache, of version 4 or 5, as (B,K,T,H) by output name, and its states (B,...).

    `states` are the kinds of each layer; the library has one name for all but the inputs of convolutions.
    """
    if isinstance(cache, list):
        of_kind = dict(zip(OF_RWKV, cache, strict=True))
        return {
            name: of_kind[kind][:, :, i]
            for i, kinds in enumerate(states)
            for name, kind in zip(cache_names.states(cache_names.PRESENT, i, kinds), kinds, strict=True)
        }
    if not hasattr(cache, "layers"):
        pairs = zip(cache.key_cache, cache.value_cache, strict=True)
        return {
            name: tensor
            for i, pair in enumerate(pairs)
            for name, tensor in zip(cache_names.present(i, part), pair, strict=True)
        }
    result: dict[str, Tensor] = {}
    layers = cache.layers
    if len(layers) > len(states) > 0:  # layers that are a network alone cache nothing
        layers = [layer for layer in layers if hasattr(layer, "conv_states") or layer.keys is not None]
    for i, layer in enumerate(layers):
        if getattr(layer, "keys", None) is not None:  # MBart has layers without them
            result |= zip(cache_names.present(i, part), (layer.keys, layer.values), strict=True)
    for i, kinds in enumerate(states):
        for name, kind in zip(cache_names.states(cache_names.PRESENT, i, kinds), kinds, strict=True):
            layer = layers[i]
            result[name] = (layer.conv_states if kind == "conv" else layer.recurrent_states)[0]
    return result
