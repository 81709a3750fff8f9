"""The score processors of a generation, in order; scores are (R,V): R rows, V tokens."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from txexport.errors import InputError, warn
from txexport.runtime.generation import penalties, sampling
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.generation.penalties import Processor, Rows

Biases = Mapping[tuple[int, ...], float]


def processors(
    config: GenerationConfig,
    vocab_size: int,
    sources: Rows | None = None,
    chosen: Mapping[int, Sequence[int]] | None = None,
    rules: Sequence[Processor] = (),
) -> list[Processor]:
    """The score processors of `config`, in transformers' order; none for greedy search without options.

    The encoder_ options compare with `sources`: an encoder's tokens, or without an encoder the prompts.
    Without sources, as for sounds, these options only warn. `chosen` has, by source, the tokens that beam
    groups have chosen at this step, where there are groups. `rules` run before the sampling filters. Raises
    InputError for a token that is not below `vocab_size`.
    """
    chain = _biases(config, vocab_size)
    if chosen is not None:
        penalty = config.diversity_penalty
        chain.append(partial(penalties.hamming_diversity, penalty=penalty, chosen=chosen))
    chain += _repetitions(config, sources)
    chain += _bans(config, vocab_size)
    chain += _forced(config, vocab_size)
    chain += rules
    if config.do_sample:
        chain += _limits(config)
    if config.renormalize_logits:
        chain.append(lambda step, scores: sampling.log_softmax(scores))
    return chain


def _biases(config: GenerationConfig, vocab_size: int) -> list[Processor]:
    chain: list[Processor] = []
    single: Biases = {(token,): bias for token, bias in config.logit_bias.items()}
    if config.sequence_bias:
        chain.append(_bias("sequence_bias", config.sequence_bias, vocab_size))
    if single:
        chain.append(_bias("logit_bias", single, vocab_size))
    return chain


def _repetitions(config: GenerationConfig, sources: Rows | None) -> list[Processor]:
    chain: list[Processor] = []
    encoded = None if sources is None else [np.asarray(row, np.int64) for row in sources]
    penalty, size = config.encoder_repetition_penalty, config.encoder_no_repeat_ngram_size
    if encoded is None and (penalty != 1 or size):
        warn("the encoder_ options change nothing: no tokens are encoded")
    if encoded is not None and penalty != 1:
        chain.append(partial(penalties.encoder_repetition_penalty, penalty=penalty, sources=encoded))
    if config.repetition_penalty != 1:
        chain.append(partial(penalties.repetition_penalty, penalty=config.repetition_penalty))
    presence, frequency = config.presence_penalty, config.frequency_penalty
    if presence or frequency:
        chain.append(partial(penalties.count_penalty, presence=presence, frequency=frequency))
    if config.no_repeat_ngram_size:
        chain.append(partial(penalties.no_repeat_ngram, size=config.no_repeat_ngram_size))
    if encoded is not None and size:
        chain.append(partial(penalties.encoder_no_repeat_ngram, size=size, sources=encoded))
    return chain


def _bans(config: GenerationConfig, vocab_size: int) -> list[Processor]:
    """Processors that ban tokens; they run before those that force tokens."""
    chain: list[Processor] = []
    eos = _below(config.eos_token_id, vocab_size)
    ends = {(token,) for token in config.eos_token_id}  # which bad_words_ids does not rule out
    bad = {word: -math.inf for word in config.bad_words_ids if word not in ends}
    if bad:
        chain.append(_bias("bad_words_ids", bad, vocab_size))
    if len(eos) and config.min_new_tokens:
        chain.append(partial(penalties.min_new_tokens, least=config.min_new_tokens, eos=eos))
    elif len(eos) and config.min_new_tokens is None and config.min_length:
        chain.append(partial(penalties.min_length, least=config.min_length, eos=eos))
    return chain


def _forced(config: GenerationConfig, vocab_size: int) -> list[Processor]:
    """Processors that force tokens, and those that transformers runs after them."""
    chain: list[Processor] = []
    bos, eos = config.forced_bos_token_id, _below(config.eos_token_id, vocab_size)
    if bos is not None:
        chain.append(partial(penalties.forced_bos, tokens=_known("forced_bos_token_id", [bos], vocab_size)))
    if config.forced_eos_token_id:
        tokens = _known("forced_eos_token_id", config.forced_eos_token_id, vocab_size)
        chain.append(partial(penalties.forced_eos, tokens=tokens))
    if config.remove_invalid_values:
        chain.append(penalties.finite)
    if config.exponential_decay_length_penalty is not None and len(eos):
        start, factor = config.exponential_decay_length_penalty
        chain.append(partial(penalties.exponential_decay, start=start, factor=factor, eos=eos))
    if config.suppress_tokens:
        chain.append(partial(penalties.suppress, tokens=_below(config.suppress_tokens, vocab_size)))
    if config.begin_suppress_tokens:
        tokens = _below(config.begin_suppress_tokens, vocab_size)
        chain.append(partial(penalties.begin_suppress, tokens=tokens, after_bos=bos is not None))
    return chain


def _limits(config: GenerationConfig) -> list[Processor]:
    """Sampling filters (top-k, top-p, ...); beams keep enough tokens that one is not an end of sequence."""
    chain: list[Processor] = []
    s = config
    keep = 1 if s.num_beams == 1 else max(len(s.eos_token_id), 1) + 1
    if s.temperature != 1:
        chain.append(_limit(sampling.temperature, s.temperature))
    if s.top_h is not None:
        chain.append(_limit(sampling.top_h, s.top_h))
    if s.top_k:
        chain.append(_limit(sampling.top_k, max(s.top_k, keep)))
    if s.top_p < 1:
        chain.append(_limit(sampling.top_p, s.top_p, keep))
    if s.min_p:
        chain.append(_limit(sampling.min_p, s.min_p, keep))
    if s.typical_p < 1:
        chain.append(_limit(sampling.typical_p, s.typical_p, keep))
    if s.epsilon_cutoff:
        chain.append(_limit(sampling.epsilon_cutoff, s.epsilon_cutoff, keep))
    if s.eta_cutoff:
        chain.append(_limit(sampling.eta_cutoff, s.eta_cutoff, keep))
    return chain


def _limit(function: Callable[..., np.ndarray], *arguments: float) -> Processor:
    return lambda step, scores: function(scores, *arguments)


def _below(tokens: Sequence[int], vocab_size: int) -> np.ndarray:
    """The tokens that have a score; one without is never generated, so it needs no ban."""
    return np.array([token for token in tokens if token < vocab_size], np.int64)


def _known(name: str, tokens: Sequence[int], vocab_size: int) -> np.ndarray:
    """The tokens, all with a score. Raises InputError for others."""
    if max(tokens) >= vocab_size:
        raise InputError(f"{name} has token {max(tokens)}, expected 0 to {vocab_size - 1}")
    return np.array(tokens, np.int64)


def _bias(name: str, biases: Biases, vocab_size: int) -> Processor:
    """`sequence_bias`, with the biases of single tokens in one array."""
    _known(name, [token for tokens in biases for token in tokens], vocab_size)
    always = np.zeros(vocab_size, np.float32)
    after: dict[tuple[int, ...], list[tuple[int, float]]] = defaultdict(list)
    for (*prefix, token), bias in biases.items():
        if prefix:
            after[tuple(prefix)].append((token, bias))
        else:
            always[token] = bias
    return partial(
        penalties.sequence_bias, always=always, after=dict(after), lengths={len(prefix) for prefix in after}
    )
