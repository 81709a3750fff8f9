"""New text for prompts: what Model's methods of these names do."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from txexport.runtime.generation import scheduler
from txexport.runtime.generation.prompts import Prompts, chat_input_ids, inputs_of, target_option
from txexport.runtime.generation.requests import LogitsProcessor, check_place, request_of
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.runtime.generation.search import Generated
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.languages import refuse_languages
from txexport.runtime.tasks import speech_recognition
from txexport.runtime.tasks.image_to_text import image_to_text
from txexport.support.arguments import check_flag
from txexport.support.progress import Progress


def generate(
    bundle: LoadedBundle,
    prompts: Prompts,
    *,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    **options: Any,
) -> str | list[str] | list[list[str]]:
    """The new text for a prompt, or for each of several; `options` are those of `generate_with_scores`."""
    if bundle.is_speech:
        refuse_languages(src_lang, tgt_lang)
        return speech_recognition.transcribe(bundle, prompts, **options)
    if bundle.is_image:
        refuse_languages(src_lang, tgt_lang)
        return image_to_text(bundle, prompts, **options)
    inputs, single = inputs_of(bundle, prompts, src_lang)
    options |= target_option(bundle, tgt_lang)
    texts = bundle.files.text.decode(generate_ids(bundle, inputs, **options))
    copies = len(texts) // max(1, len(inputs))
    if copies > 1:
        grouped = [texts[at : at + copies] for at in range(0, len(texts), copies)]
        return grouped[0] if single else grouped
    return texts[0] if single else texts


def generate_ids(
    bundle: LoadedBundle, input_ids: Sequence[Sequence[int] | np.ndarray], **options: Any
) -> list[list[int]]:
    """The new token ids for rows of ids; `options` are those of `generate_with_scores`."""
    return [result.tokens for result in generate_with_scores(bundle, input_ids, **options)]


def generate_with_scores(
    bundle: LoadedBundle,
    input_ids: Sequence[Sequence[int] | np.ndarray],
    *,
    logits_processor: LogitsProcessor | None = None,
    log_probs: bool = False,
    batch_tokens: int = CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> list[Generated]:
    """The new token ids for rows of ids, with the scores of beams, or the tokens' log-probabilities."""
    check_flag("log_probs", log_probs)
    check_place(first_place)
    request = request_of(bundle, input_ids, logits_processor, options)
    request = replace(request, log_probs=log_probs, first_place=first_place)
    return scheduler.finished(request, batch_tokens, progress)


def chat(bundle: LoadedBundle, conversation: Conversation, **options: Any) -> str:
    """The answer to a conversation; `options` are those of `generate_with_scores`."""
    input_ids = chat_input_ids(bundle, conversation)
    return bundle.files.text.decode(generate_ids(bundle, input_ids, **options))[0]
