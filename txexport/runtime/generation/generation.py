"""From prompts to new tokens: read the prompts into a cache, then search."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from txexport.contracts.stage import GENERATED, TOKENS
from txexport.runtime.generation.checked_cache import CheckedCache
from txexport.runtime.generation.drafts import (
    Assistant,
    AssistantSettings,
    PromptLookup,
    Proposer,
)
from txexport.runtime.generation.group_beam_search import Chosen, group_beam
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache
from txexport.runtime.generation.length_limits import check_limits, new_tokens
from txexport.runtime.generation.media import hide
from txexport.runtime.generation.options import SCHEDULES
from txexport.runtime.generation.planning import plan_of
from txexport.runtime.generation.prefill import padding, prefill
from txexport.runtime.generation.prefixes import FinishedRowRecorder
from txexport.runtime.generation.requests import GenerationRequest, encoded
from txexport.runtime.generation.sampling import sample as draw
from txexport.runtime.generation.search import BeamSettings, Decoder, Generated, Plan, beam, sample
from txexport.runtime.generation.speculation import Speculation
from txexport.runtime.loaded_bundle import LoadedBundle


def run(
    request: GenerationRequest, results: Sequence[Generated], rngs: Sequence[np.random.Generator]
) -> Iterator[list[tuple[int, int]]]:
    """Fill `results` of one batch, `num_return_sequences` a row; `rngs` are theirs, or with beams one a row.

    Yields after every step the places of results that got a token, and the tokens; of beams, all in the end.
    """
    config = request.config
    limits = [
        new_tokens(len(prompt), config, request.limit, request.strict) for prompt in request.decoder_input_ids
    ]
    check_limits(request, limits)
    cache, logits = prefill(request, limits)
    owners = np.arange(len(request.decoder_input_ids))  # (R): each row's prompt
    if config.num_beams > 1:
        if request.prefix_store is not None:  # the prompts alone, which all beams share
            empty = [Generated() for _ in request.decoder_input_ids]
            _recorder(request, cache, request.decoder_input_ids, empty, owners).select(np.arange(0))
        best = _beams(request, limits, rngs, CheckedCache(cache, config.remove_invalid_values), logits)
        for place, hypothesis in enumerate(chain.from_iterable(best)):
            results[place].tokens, results[place].score = hypothesis.tokens, hypothesis.score
            yield [(place, token) for token in hypothesis.tokens]
        return
    owners = owners.repeat(config.num_return_sequences)
    if config.num_return_sequences > 1:
        cache.select(owners)
        logits = logits[owners]
    plan = plan_of(request, limits, owners.tolist())

    def choose(scores: np.ndarray, places: np.ndarray) -> np.ndarray:
        return draw(scores, [rngs[i] for i in places]) if config.do_sample else scores.argmax(axis=1)

    prompts = [request.decoder_input_ids[owner] for owner in owners]
    drawing = choose if config.do_sample else None
    proposer = _proposer(request, limits, prompts, plan, owners, drawing)
    recorder = None
    if request.prefix_store is not None:
        recorder = _recorder(request, cache, prompts, results, owners)
    decoder = CheckedCache(cache, config.remove_invalid_values, recorder)
    if proposer is None:
        yield from sample(decoder, logits, plan, choose, results, log_probs=request.log_probs)
    else:
        speculation = Speculation(
            decoder,
            prompts,
            plan,
            choose,
            results,
            proposer,
            rngs=rngs if config.do_sample else None,
            limit=request.limit,
            log_probs=request.log_probs,
            timed=request.assistant is None or not config.do_sample,
        )
        yield from speculation.run(logits)
    if recorder is not None:
        recorder.select(np.arange(0))


def _recorder(
    request: GenerationRequest,
    cache: StaticCache | DynamicCache,
    prompts: Sequence[Sequence[int]],
    results: Sequence[Generated],
    owners: np.ndarray,
) -> FinishedRowRecorder:
    """The recorder of finished rows for the request's prefix store; `owners` (R) are the rows' prompts."""
    assert request.prefix_store is not None
    media = [request.media_of(owner) for owner in owners.tolist()]
    return FinishedRowRecorder(request.prefix_store, request.bundle, cache, prompts, results, media)


def _proposer(
    request: GenerationRequest,
    limits: list[int],
    prompts: Sequence[Sequence[int]],
    plan: Plan,
    owners: np.ndarray,
    choose: Callable[[np.ndarray, np.ndarray], np.ndarray] | None,
) -> Proposer | None:
    """The proposer of draft tokens, or None; `owners` (R) are the rows' prompts."""
    config = request.config
    if request.assistant is not None:
        bundle = request.assistant
        if not _has_room(bundle, request):
            return None
        mine = encoded(replace(request, bundle=bundle, prefix_store=None))
        mine = replace(mine, decoder_input_ids=request.decoder_input_ids)
        cache, _ = prefill(mine, limits)
        cache.select(owners)
        settings = AssistantSettings(
            config.num_assistant_tokens,
            config.num_assistant_tokens_schedule != SCHEDULES[0],
            config.assistant_confidence_threshold,
            mine.limit,
        )
        decoder = CheckedCache(cache, config.remove_invalid_values)
        return Assistant(decoder, prompts, plan.ends, settings, plan.shape, choose)
    if config.prompt_lookup_num_tokens is None:
        return None
    media = [request.media_of(owner) for owner in owners.tolist()]
    texts: list[Sequence[int]] = list(map(hide, prompts, media))
    sources = request.encoder_input_ids
    if request.bundle.is_encoder_decoder and sources is not None:
        texts = [[*sources[owner], *text] for owner, text in zip(owners, texts, strict=True)]
    return PromptLookup(texts, config.prompt_lookup_num_tokens, config.max_matching_ngram_size, plan.ends)


def _has_room(assistant: LoadedBundle, request: GenerationRequest) -> bool:
    """Return whether all prompts fit the assistant's longest sequence."""
    ids = {GENERATED: request.decoder_input_ids, TOKENS: request.encoder_input_ids}
    for stage in assistant.stages:
        rows, limit = ids.get(stage.ids_source or "") or [], assistant.max_length(stage)
        if limit is not None and any(len(row) > limit for row in rows):
            return False
    return True


def _beams(
    request: GenerationRequest,
    limits: list[int],
    rngs: Sequence[np.random.Generator],
    cache: Decoder,
    logits: np.ndarray,
) -> list[list[Generated]]:
    """The best hypotheses of each prompt."""
    config = request.config
    how = BeamSettings(
        config.num_beams, config.length_penalty, config.early_stopping, config.num_return_sequences
    )
    owners = list(range(len(request.decoder_input_ids)))
    if config.num_beam_groups > 1:
        chosen: Chosen = {}
        plan = plan_of(request, limits, owners, chosen)
        return group_beam(cache, logits, plan, how, config.num_beam_groups, chosen, padding(request))
    plan = plan_of(request, limits, owners)
    return beam(cache, logits, plan, how, rngs if config.do_sample else None)
