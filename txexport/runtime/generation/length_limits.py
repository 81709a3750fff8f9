"""The most new tokens of each prompt, and whether memory holds them."""

import math
from collections.abc import Sequence

import numpy as np

from txexport.errors import InputError, counted
from txexport.runtime.generation.cache_rows import check_room
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.generation.prefill import CAPACITY
from txexport.runtime.generation.requests import GenerationRequest

NEW_TOKENS = 20  # default of max_new_tokens


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


def check_limits(request: GenerationRequest, limits: Sequence[int]) -> None:
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
