"""New text for prompts: what Model's methods of these names do."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from txexport.contracts.stage import IMAGE, SOUND
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.prompts import Prompts, chat_input_ids, inputs_of, target_option
from txexport.runtime.generation.requests import LogitsProcessor, check_place, request_of
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.runtime.generation.search import Generated
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.chat import Conversation, Messages, Tools
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
    logits_processor: LogitsProcessor | None = None,
    batch_tokens: int = CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> str | list[str] | list[list[str]]:
    """The new text for a prompt, or for each of several, in their order.

    For an encoder-decoder `prompts` are its sources, for a model of speech sounds (see `transcribe`), for
    one of images those (see `image_to_text`).
    `options` are those of `GenerationConfig`, with transformers' names and defaults over what the
    checkpoint says; with num_return_sequences above 1 there is a list of texts for each prompt.
    `logits_processor` changes logits at each step: it takes rows of tokens and scores (R,V), and gives
    scores, where -inf rules a token out and +inf, which one token of a row may have, forces it.
    `assistant_model` is a smaller Model of the same tokens, which proposes what this one then confirms
    several tokens a step; `prefix_store` a PrefixStore of what was read before.
    `src_lang` and `tgt_lang` are languages by the names of the tokenizer's tokens ("fr_XX", "fra_Latn",
    or "fr" for "__fr__"), for a translator between many. Errors as `generate_ids`.

    Many prompts run in batches of like lengths. `batch_tokens` is how many tokens a batch may come to in
    the end: prompts, new tokens and padding, for each beam or sequence returned; a prompt that needs more
    runs alone. With do_sample and a seed, what is drawn for a prompt depends on the seed and on its place
    among the prompts, and on nothing else: neither on the batches nor on the other prompts. `first_place`
    is the place of the first, where these go on after others.
    """
    options |= {
        "logits_processor": logits_processor,
        "batch_tokens": batch_tokens,
        "first_place": first_place,
        "progress": progress,
    }
    if bundle.prompt_kind == SOUND:
        refuse_languages(src_lang, tgt_lang)
        return speech_recognition.transcribe(bundle, prompts, **options)
    if bundle.prompt_kind == IMAGE:
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
    """The new token ids for rows of ids of any lengths; of spectrograms for speech, of pixels for images.

    Arguments as `generate`. A row ends after an end-of-sequence token, which it keeps, at a stop string,
    or after `max_new_tokens`: by default what the checkpoint's settings say, or else 20, within the
    model's longest sequence. With num_return_sequences above 1, so many rows for each one, the best
    first. Raises InputError for a task that does not generate, for rows that are too long, and for
    options that are unknown or out of range.
    """
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
    """As `generate_ids`, with the scores of beams, or with `log_probs` the tokens' log-probabilities."""
    check_flag("log_probs", log_probs)
    check_place(first_place)
    request = request_of(bundle, input_ids, logits_processor, options)
    request = replace(request, log_probs=log_probs, first_place=first_place)
    return scheduler.finished(request, batch_tokens, progress)


def chat(
    bundle: LoadedBundle,
    messages: Messages,
    *,
    tools: Tools | None = None,
    chat_template: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    continue_final_message: bool | str = False,
    logits_processor: LogitsProcessor | None = None,
    **options: Any,
) -> str:
    """The answer to a conversation, as the checkpoint's chat template puts it to the model.

    `messages` are {"role": "user", "content": ...} and so on; `tools` are the functions that the model
    may call, {"type": "function", "function": {"name": ..., "description": ..., "parameters": ...}}, as
    of transformers' `apply_chat_template`. A call is text, in the form that the checkpoint was trained to
    write. Of several templates by name `chat_template` is one; else it is the default, or "tool_use" for
    tools. `chat_template_kwargs` are values that it reads, as {"enable_thinking": False} or {"documents":
    [...]}. With `continue_final_message` the answer goes on the last message, or that key of it, as
    "reasoning_content". Errors as `generate`, where there is no template, and where it reads no tools,
    or not a value.
    """
    conversation = Conversation(messages, tools, chat_template, chat_template_kwargs, continue_final_message)
    input_ids = chat_input_ids(bundle, conversation)
    rows = generate_ids(bundle, input_ids, logits_processor=logits_processor, **options)
    return bundle.files.text.decode(rows)[0]
