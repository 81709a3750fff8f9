"""Prefill: read the prompts into a cache, in chunks, and from a prefix store as far as it has them."""

import numpy as np

from txexport.contracts.names import LOGITS
from txexport.runtime.generation.cache_rows import check_room
from txexport.runtime.generation.caches import open_cache
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache
from txexport.runtime.generation.requests import GenerationRequest
from txexport.runtime.preprocessing.text import pad
from txexport.runtime.session import finite

CHUNK = 512  # prompt tokens of one prefill step
LONG = 8192  # a longer prompt, whose scores take the most memory, is read in chunks of half the size
CAPACITY = 64  # smallest cache, in tokens


def prefill(request: GenerationRequest, limits: list[int]) -> tuple[StaticCache | DynamicCache, np.ndarray]:
    """A cache that has read the prompts, and the logits (B,V) of each one's last token.

    The time of attention depends on the number of slots, filled or empty, so they grow with the prompt.
    """
    prompts = request.decoder_input_ids
    total = max(len(prompt) + new for prompt, new in zip(prompts, limits, strict=True))
    longest = max(map(len, prompts))
    roomy = max(CAPACITY, 2 * longest)
    capacity = min(total, roomy)
    check_room(request.bundle.decoder, len(prompts), capacity)
    grows = request.bundle.decoder.moves is None  # on a device, attention reads the filled slots alone
    size = chunk_of(request, CHUNK, longest)
    first = min(size, longest) + CAPACITY
    cache = cache_of(request, len(prompts), min(capacity, first) if grows else capacity)
    lengths = _fill(request, cache)
    ids, _ = pad([prompt[n:] for prompt, n in zip(prompts, lengths, strict=True)], padding(request))
    counts = np.array([len(prompt) for prompt in prompts]) - lengths
    logits = np.zeros((len(ids), request.vocab_size), np.float32)
    for start in range(0, ids.shape[1], size):
        chunk = ids[:, start : start + size]
        here = np.clip(counts - start, 0, size)
        cache.reserve(min(capacity, int(cache.lengths.max()) + chunk.shape[1] + CAPACITY))
        last = cache.step(chunk, here)
        logits = np.where((here > 0)[:, None], last, logits)
    cache.reserve(capacity)
    if not request.config.remove_invalid_values:
        check_finite(logits)
    return cache, logits


def chunk_of(request: GenerationRequest, size: int, longest: int) -> int:
    """The tokens of a prefill step, `size` or half of it; all of the longest prompt if it or an image is read
    in one step."""
    stage = request.bundle.step
    facts = None if stage is None else stage.facts
    at_once = facts is not None and (facts.mutual_prompts or (facts.mutual_images and any(request.media)))
    if at_once:
        return max(1, longest)
    return size if longest <= LONG else max(1, size // 2)


def check_finite(logits: np.ndarray) -> None:
    """Raise InputError where a token has no finite logit."""
    finite({LOGITS: logits})


def _fill(request: GenerationRequest, cache: StaticCache | DynamicCache) -> np.ndarray:
    """Fill a new cache from the prefix store; returns the number of tokens of each row (B)."""
    prompts, store = request.decoder_input_ids, request.prefix_store
    if store is None:
        return cache.lengths
    stored = [store.longest(request.bundle, prompt, request.media_of(i)) for i, prompt in enumerate(prompts)]
    lengths = [length for length, _ in stored]
    rest = max(len(prompt) - length for prompt, length in zip(prompts, lengths, strict=True))
    fits = request.limit is None or max(lengths) + rest <= request.limit  # or padding would be beyond it
    if any(lengths) and fits:
        cache.fill(lengths, [arrays for _, arrays in stored])
    return cache.lengths


def cache_of(request: GenerationRequest, batch: int, capacity: int) -> StaticCache | DynamicCache:
    """An empty cache for as many rows as the request has, with the media of each."""
    kind = request.bundle.manifest.cache
    assert kind is not None
    cache = open_cache(request.bundle.decoder, kind, request.cross, batch, capacity)
    cache.media = [request.media_of(row) for row in range(batch)]
    return cache


def padding(request: GenerationRequest) -> int:
    """The padding token id; any id of the vocabulary will do, since padding is masked, but a medium's."""
    pad, media = request.config.pad, request.bundle.image_token_id
    if pad < request.vocab_size and pad != media:
        return pad
    return 1 if media == 0 else 0
