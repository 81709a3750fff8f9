"""From prompts to new tokens: read the prompts into a cache, then search."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, takewhile

import numpy as np

from txexport.contracts.names import LOGITS
from txexport.contracts.stage import GENERATED, TOKENS
from txexport.errors import InputError, counted
from txexport.runtime.batches import SCORES_AT_ONCE
from txexport.runtime.generation.checked_cache import CheckedCache
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.generation.drafts import (
    Assistant,
    AssistantSettings,
    PromptLookup,
    Proposer,
)
from txexport.runtime.generation.group_beam_search import Chosen, group_beam
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache, check_room, open_cache
from txexport.runtime.generation.logits_processors import processors
from txexport.runtime.generation.media import hide
from txexport.runtime.generation.options import SCHEDULES
from txexport.runtime.generation.penalties import Step
from txexport.runtime.generation.prefixes import FinishedRowRecorder
from txexport.runtime.generation.requests import GenerationRequest, encoded
from txexport.runtime.generation.sampling import log_softmax
from txexport.runtime.generation.sampling import sample as draw
from txexport.runtime.generation.search import BeamSettings, Decoder, Generated, Plan, beam, sample
from txexport.runtime.generation.speculation import Speculation
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import Text, pad
from txexport.runtime.session import finite

NEW_TOKENS = 20  # default of max_new_tokens
CHUNK = 512  # prompt tokens of one prefill step
CAPACITY = 64  # smallest cache, in tokens


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
    _check(request, limits)
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


def plan_of(
    request: GenerationRequest, limits: list[int], owners: list[int], chosen: Chosen | None = None
) -> Plan:
    """Limits, stopping and score processing of rows; `chosen` has the tokens of other beam groups."""
    config, prompts, logits_processor = request.config, request.decoder_input_ids, request.logits_processor
    sources = request.encoder_input_ids
    changes = processors(config, request.vocab_size, sources, chosen, request.constraint)
    shape = None
    if changes or logits_processor is not None:

        def shape(rows: Sequence[int], new: Sequence[Sequence[int]], scores: np.ndarray) -> np.ndarray:
            mine = [owners[row] for row in rows]
            tokens = [[*prompts[owner], *own] for owner, own in zip(mine, new, strict=True)]
            before = [len(prompts[owner]) for owner in mine]
            totals = [length + limits[owner] for length, owner in zip(before, mine, strict=True)]
            step = Step(tokens, before, totals, mine)
            with np.errstate(all="ignore"):  # what comes of it is looked at below
                for process in changes:
                    scores = process(step, scores)
            if not (scores.max(axis=1) < np.inf).all():  # NaN is not below
                raise InputError("options make scores that are NaN or infinity; choose smaller numbers")
            if logits_processor is None:
                return scores
            return _processed(logits_processor(tokens, scores), scores.shape)

    stopped = None
    if config.stop_strings:
        text = request.bundle.files.text
        read = [prompts[owner] if request.stops_in_prompts else [] for owner in owners]
        stopped = _stopper(text, config.stop_strings, read)
    return Plan([limits[owner] for owner in owners], frozenset(config.eos_token_id), shape, stopped)


def _processed(scores: object, shape: tuple[int, ...]) -> np.ndarray:
    """The scores (R,V) of `logits_processor`; of a token that it forces 0, so that beams can add them.

    Raises InputError for no numbers, and for more than one forced token of a row.
    """
    if not isinstance(scores, np.ndarray) or scores.shape != shape or scores.dtype.kind != "f":
        what = f"{scores.dtype} {scores.shape}" if isinstance(scores, np.ndarray) else type(scores).__name__
        raise InputError(f"logits_processor gave {what}, expected an array of floats {shape}")
    highest = scores.max(axis=1)
    if (highest < np.inf).all():
        return scores
    forced = scores == np.inf
    if np.isnan(highest).any() or (forced.sum(axis=1) > 1).any():
        raise InputError(
            "logits_processor makes scores that are NaN, or +inf for several tokens of a row; "
            "give large finite numbers"
        )
    alone = np.where(forced, np.float32(0), np.float32(-np.inf))
    return np.where(forced.any(axis=1, keepdims=True), alone, scores)


def _stopper(
    text: Text, strings: Sequence[str], prompts: Sequence[Sequence[int]]
) -> Callable[[int, Sequence[int]], bool]:
    """A function that tells whether a row's last token completes a stop string."""
    window = max(len(string.encode()) for string in strings) + 8  # a token is a byte or more

    def stopped(row: int, tokens: Sequence[int]) -> bool:
        tail = [*prompts[row][-window:], *tokens][-window:]
        before, after = text.decode([tail[:-1], tail], special=True)
        old = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        return any(after.find(string, max(0, old - len(string) + 1)) >= 0 for string in strings)

    return stopped


def prefill(request: GenerationRequest, limits: list[int]) -> tuple[StaticCache | DynamicCache, np.ndarray]:
    """A cache that has read the prompts, and the logits (B,V) of each one's last token.

    Attention takes its time by the slots of a cache, filled or not, so that these grow with what is read.
    """
    prompts = request.decoder_input_ids
    total = max(len(prompt) + new for prompt, new in zip(prompts, limits, strict=True))
    roomy = max(CAPACITY, 2 * max(map(len, prompts)))
    capacity = min(total, roomy)
    check_room(request.bundle.decoder, len(prompts), capacity)
    grows = request.bundle.decoder.memory == "cpu"  # elsewhere a buffer grows by way of the CPU
    first = min(CHUNK, max(map(len, prompts))) + CAPACITY
    cache = _open_cache(request, len(prompts), min(capacity, first) if grows else capacity)
    lengths = _fill(request, cache)
    ids, _ = pad([prompt[n:] for prompt, n in zip(prompts, lengths, strict=True)], padding(request))
    counts = np.array([len(prompt) for prompt in prompts]) - lengths
    logits = np.zeros((len(ids), request.vocab_size), np.float32)
    for start in range(0, ids.shape[1], CHUNK):
        chunk = ids[:, start : start + CHUNK]
        here = np.clip(counts - start, 0, CHUNK)
        cache.reserve(min(capacity, int(cache.lengths.max()) + chunk.shape[1] + CAPACITY))
        last = cache.step(chunk, here)
        logits = np.where((here > 0)[:, None], last, logits)
    cache.reserve(capacity)
    if not request.config.remove_invalid_values:
        check_finite(logits)
    return cache, logits


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
    if request.limit is None or max(lengths) + rest <= request.limit:  # or padding would be beyond it
        cache.fill(lengths, [arrays for _, arrays in stored])
    return cache.lengths


def _open_cache(request: GenerationRequest, batch: int, capacity: int) -> StaticCache | DynamicCache:
    kind = request.bundle.manifest.cache
    assert kind is not None
    return open_cache(request.bundle.decoder, kind, request.cross, batch, capacity)


def padding(request: GenerationRequest) -> int:
    """The padding token id; any id of the vocabulary will do, since padding is masked."""
    return request.config.pad if request.config.pad < request.vocab_size else 0


def _check(request: GenerationRequest, limits: Sequence[int]) -> None:
    """Raise InputError for what memory does not hold, and for options that these prompts make impossible."""
    config, prompts, logits_processor = request.config, request.decoder_input_ids, request.logits_processor
    if logits_processor is not None and not callable(logits_processor):
        raise InputError(
            f"logits_processor is a {type(logits_processor).__name__}, "
            "expected a function of tokens and scores"
        )
    copies, longest = max(config.num_beams, config.num_return_sequences), max(limits)
    most = max(map(len, prompts)) + min(longest, CAPACITY)
    beams = longest * 8 * 6 if config.num_beams > 1 else 0  # tokens of those that go on, end and may come
    check_room(request.bundle.decoder, len(prompts) * copies, most, request.vocab_size * 4 * 3 + beams)
    if config.num_beams > 1:
        _check_penalty(config.length_penalty, longest)


def _check_penalty(penalty: float, longest: int) -> None:
    """Raise InputError where no float32 holds what scores of `longest` tokens are divided by."""
    try:
        with np.errstate(over="ignore", under="ignore"):
            divisor = float(np.float32(longest**penalty))
    except OverflowError:
        divisor = math.inf
    if not 0 < divisor < math.inf:
        raise InputError(
            f"length_penalty is {penalty:g}, which {counted(longest, 'token')} raise beyond all numbers"
        )


def new_tokens(prompt: int, config: GenerationConfig, limit: int | None, strict: bool) -> int:
    """The most new tokens for a prompt of `prompt` tokens.

    A prompt as long as the model's longest sequence has one answer. Raises InputError for a longer one, and,
    if `strict`, where new tokens that are read again would go beyond it.
    """
    count, room = config.max_new_tokens, None if limit is None else limit - prompt
    subject = f"a prompt of {counted(prompt, 'token')}"
    if room == 0:
        room = 1  # the last token of the prompt has its answer, which nothing reads
    if room is not None and room < 1:
        raise InputError(f"{subject} leaves no room in the model's {limit}")
    if count is None and config.max_length is not None:
        count = config.max_length - prompt
        if count < 1:
            longest = f"max_length={config.max_length}"
            raise InputError(f"{subject} leaves no room in {longest}; choose max_new_tokens")
    elif count is not None and strict and room is not None and count > room:
        raise InputError(f"{subject} and {counted(count, 'new one')} exceed the model's {limit}")
    count = NEW_TOKENS if count is None else count
    return count if room is None else min(count, room)


def score(request: GenerationRequest, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The log-probability of each token of each row but the first, given those before it."""
    ids, _ = pad(rows, padding(request))
    counts = np.array([len(row) for row in rows])
    cache = _open_cache(request, len(ids), ids.shape[1])
    log_probs = np.zeros((len(ids), ids.shape[1] - 1), np.float32)
    most = max(1, SCORES_AT_ONCE // (len(ids) * request.vocab_size))
    for start in range(0, ids.shape[1] - 1, most):
        logits = cache.read(ids[:, start : start + most], np.clip(counts - start, 0, most))  # (B, S, V)
        following = ids[:, start + 1 : start + 1 + most, None]
        logs = log_softmax(logits[:, : following.shape[1]])
        log_probs[:, start : start + most] = np.take_along_axis(logs, following, axis=2)[:, :, 0]
    scores = [log_probs[row, : count - 1] for row, count in enumerate(counts)]
    for row in scores:
        finite({LOGITS: row})
    return scores
