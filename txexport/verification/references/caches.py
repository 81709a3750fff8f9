"""The caches of the transformers library by the names of a graph's outputs."""

from typing import Any

from torch import Tensor

from txexport.contracts import cache_names


def cached(cache: Any, part: str | None = None) -> dict[str, Tensor]:
    """A transformers cache, of version 4 or 5, as (B,K,T,H) by output name, and its states (B,...)."""
    if not hasattr(cache, "layers"):
        pairs = zip(cache.key_cache, cache.value_cache, strict=True)
        return {
            name: tensor
            for i, pair in enumerate(pairs)
            for name, tensor in zip(cache_names.present(i, part), pair, strict=True)
        }
    result: dict[str, Tensor] = {}
    for i, layer in enumerate(cache.layers):
        if getattr(layer, "keys", None) is not None:  # MBart has layers without them
            result |= zip(cache_names.present(i, part), (layer.keys, layer.values), strict=True)
        for kind in cache_names.STATES:
            state = getattr(layer, f"{kind}_states", {}).get(0)
            if state is not None:
                (name,) = cache_names.of_layer(cache_names.PRESENT, i, [kind])
                result[name] = state
    return result
