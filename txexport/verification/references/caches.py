"""The caches of the transformers library by the names of a graph's outputs."""

import copy
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from txexport.contracts import cache_names


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
