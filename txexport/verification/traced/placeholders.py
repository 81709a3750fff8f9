"""Tokens of a text in whose place images or sounds stand: as many as the class makes of each of them."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from txexport.verification.traced import inputs
from txexport.verification.traced.inputs import Layout, Sizes
from txexport.verification.traced.originals import Original, quiet

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"


def filled(
    original: Original, layout: Layout, sizes: Mapping[str, int], seed: int, ragged: bool
) -> dict[str, Any]:
    """Seeded values of the inputs at these sizes, with the tokens for images and sounds after the first one.

    Raises ValueError for fewer tokens than these and two more, and what the class raises.
    """
    tokens = counts(original, layout, sizes)
    if not tokens:
        return inputs.fill(layout, sizes, original.facts, seed, ragged)
    total = sum(tokens.values())
    if sizes[inputs.SEQUENCE] < total + 2:
        raise ValueError(f"{sizes[inputs.SEQUENCE]} tokens, of which {total} stand for images or sounds")
    values = inputs.fill(layout, sizes, original.facts, seed, ragged, total + 2)
    ids = values[IDS]
    ordinary = (one for one in range(inputs.FIRST_ID, 1 << 20) if one not in original.reserved_ids)
    ids[np.isin(ids, list(original.reserved_ids))] = next(ordinary)
    place = 1
    for token, number in tokens.items():
        ids[:, place : place + number] = token
        place += number
    if TYPES in values:
        values[TYPES] = np.isin(ids, list(tokens)).astype(np.int64)
    return values


def counts(original: Original, layout: Layout, sizes: Mapping[str, int]) -> dict[int, int]:
    """The number of tokens of a row by the id that stands for images or sounds, of the class's own features.

    Raises what the class raises.
    """
    if layout.get(IDS) != inputs.TOKENS:
        return {}
    result = {}
    for name, (method, token) in original.placeholders.items():
        if name not in layout:
            continue
        accepted = inspect.signature(method).parameters
        of_method = {one: axes for one, axes in layout.items() if one in accepted and axes != inputs.TOKENS}
        values = inputs.fill(of_method, sizes, original.facts, 0, False)
        feeds = {one: torch.from_numpy(np.array(array)) for one, array in values.items()}
        with torch.no_grad(), quiet():
            answer = method(**original.in_its_precision(feeds))
        result[token] = _vectors(getattr(answer, "pooler_output", answer)) // sizes[inputs.BATCH]
    return result


def _vectors(features: Any) -> int:
    """The number of vectors of features, which are a tensor or several."""
    tensors = features if isinstance(features, list | tuple) else [features]
    return sum(one.shape[:-1].numel() for one in tensors)


def lengthened(original: Original, layout: Layout, sizes: Sizes) -> Sizes:
    """Sizes with the tokens for images and sounds added to those of the text."""
    return _longer(sizes, sum(counts(original, layout, sizes).values()))


def resized(original: Original, layout: Layout, sizes: Sizes, changed: Sizes) -> Sizes:
    """Sizes with those that are `changed`, and as many more tokens as the images or sounds then need."""
    result = sizes | changed
    before, after = (sum(counts(original, layout, one).values()) for one in (sizes, result))
    return _longer(result, after - before)


def _longer(sizes: Sizes, tokens: int) -> Sizes:
    return sizes | {inputs.SEQUENCE: sizes[inputs.SEQUENCE] + tokens} if tokens else sizes
