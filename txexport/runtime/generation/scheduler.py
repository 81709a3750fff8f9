"""Runs requests in batches under a token budget."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from txexport.contracts import cache_names
from txexport.contracts.stage import TOKENS
from txexport.runtime.batches import batches_by_length
from txexport.runtime.generation import generation
from txexport.runtime.generation.cache_rows import state_tokens, token_bytes
from txexport.runtime.generation.length_limits import new_tokens
from txexport.runtime.generation.requests import GenerationRequest, checked, encoded
from txexport.runtime.generation.search import Generated
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.support.progress import Counting, Progress, counting

CACHE_TOKENS = 8192  # of a batch; on a CPU more rows are hardly faster, and the cache takes memory


def run(
    request: GenerationRequest, batch_tokens: int = CACHE_TOKENS, progress: Progress | None = None
) -> tuple[list[Generated], Iterator[list[tuple[int, int]]]]:
    """The results, `num_return_sequences` a row, and an iterator that fills them; iterate it to its end.

    Each step yields the new tokens with the indices of their results; beam search yields all tokens of a
    batch at once. Each result draws its own random numbers, by the seed and its index, whatever the batches
    are. Raises InputError for invalid rows or an invalid budget.
    """
    request = checked(request)
    results = [Generated() for _ in range(len(request.inputs) * request.config.num_return_sequences)]
    batches = list(batches_by_length(_lengths(request), costs(request), batch_tokens))
    if _alone(request):
        batches = [[row] for batch in batches for row in batch]
    return results, _steps(request, results, batches, counting(progress))


def _alone(request: GenerationRequest) -> bool:
    """Return whether each row is a batch: sounds of several lengths, without a mask or not yet read."""
    bundle = request.bundle
    return bundle.reads_any_length and (request.read is not None or not bundle.masks_signals)


def finished(
    request: GenerationRequest, batch_tokens: int = CACHE_TOKENS, progress: Progress | None = None
) -> list[Generated]:
    """The results of `run` after all its steps."""
    results, steps = run(request, batch_tokens, progress)
    for _ in steps:
        pass
    return results


def _steps(
    request: GenerationRequest,
    results: Sequence[Generated],
    batches: Sequence[Sequence[int]],
    tell: Counting,
) -> Iterator[list[tuple[int, int]]]:
    config, copies, done = request.config, request.config.num_return_sequences, 0
    entropy = np.random.SeedSequence(config.seed).entropy
    for batch in batches:
        indices = [row * copies + copy for row in batch for copy in range(copies)]
        mine = encoded(request.of_rows(batch))
        rngs: list[np.random.Generator] = []
        if config.do_sample:
            drawing = batch if config.num_beams > 1 else indices
            before = request.first_place * (1 if config.num_beams > 1 else copies)
            rngs = [generator(entropy, before + i) for i in drawing]
        for step in generation.run(mine, [results[place] for place in indices], rngs):
            yield [(indices[place], token) for place, token in step]
        done += len(batch)
        tell(done, len(request.inputs))


def generator(entropy: Any, place: int) -> np.random.Generator:
    """The random generator of the result at `place`; it does not depend on the batch."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(place,)))


def costs(request: GenerationRequest) -> list[int]:
    """The most tokens in the caches of each row and all its copies, those of the encoder included.

    States and images count as the tokens whose keys and values are as large.
    """
    bundle, config = request.bundle, request.config
    copies = max(config.num_beams, config.num_return_sequences)
    states, result = state_tokens(bundle.decoder), []
    for row, length in enumerate(_lengths(request)):
        prompt = 1 if bundle.is_encoder_decoder else length
        new = new_tokens(prompt, config, request.limit, request.strict)
        result.append((length + new + states + _image_tokens(request, row)) * copies)
    return result


def _image_tokens(request: GenerationRequest, row: int) -> int:
    """The number of tokens whose keys and values are as large as those of a row's images."""
    size = sum(one.keys.nbytes for one in request.media_of(row) if one.keys is not None)
    return -(-size // token_bytes(request.bundle.decoder)) if size else 0


def _lengths(request: GenerationRequest) -> list[int]:
    """The number of prompt tokens of each row, or of vectors of a sound or an image; 0 where not known."""
    if request.bundle.prompt_kind == TOKENS:
        return [len(row) for row in request.inputs]
    if not request.bundle.reads_any_length:
        return [_signal_length(request.bundle)] * len(request.inputs)
    if request.read is not None:  # they are opened one by one, and run alone
        return [0] * len(request.inputs)
    return [request.bundle.vectors(len(row)) for row in request.inputs]


def _signal_length(bundle: LoadedBundle) -> int:
    """The encoder's output length for a sound or an image; 0 where it is dynamic."""
    length = bundle.decoder.inputs[cache_names.past(0, cache_names.ENCODER)[0]].shape[2]
    return length if isinstance(length, int) else 0
