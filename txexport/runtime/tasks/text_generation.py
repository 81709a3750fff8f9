"""Text generation and chat."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from txexport.contracts.stage import IMAGE, SOUND, TOKENS
from txexport.errors import InputError
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.media import Media
from txexport.runtime.generation.pictures import check_reads, decoded, read_media, tiles_of
from txexport.runtime.generation.prompts import Prompts, chat_inputs, inputs_of, target_option
from txexport.runtime.generation.requests import LogitsProcessor, check_place, request_of
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.runtime.generation.search import Generated
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.chat import Conversation, Messages, Tools
from txexport.runtime.preprocessing.languages import refuse_languages
from txexport.runtime.preprocessing.message_images import PromptImages
from txexport.runtime.preprocessing.message_sounds import PromptSounds
from txexport.runtime.tasks import drawn_questions, speech_recognition
from txexport.runtime.tasks.image_to_text import image_to_text, texts_of
from txexport.support.arguments import check_flag
from txexport.support.progress import Progress


def generate(
    bundle: LoadedBundle,
    prompts: Prompts,
    *,
    images: PromptImages | None = None,
    audio: PromptSounds | None = None,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    logits_processor: LogitsProcessor | None = None,
    batch_tokens: int = CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> str | list[str] | list[list[str]]:
    """The new text for a prompt, or for each of several, in their order.

    For an encoder-decoder `prompts` are the sources, for a speech model sounds (see `transcribe`), for an
    image model images (see `image_to_text`). `images` are those that stand in a prompt of a model that reads
    text and images, in the places where it has the checkpoint's token for one, such as <image>: one or a list
    for a single prompt, a list of these, or None, for several. `audio` are sounds in the same way. `options`
    are those of `GenerationConfig`, with transformers' names, over the checkpoint's settings; with
    num_return_sequences above 1 there is a list of texts for each prompt. `logits_processor` changes scores
    at each step: it takes rows of tokens and scores (R,V), and returns scores, where -inf bans a token and
    +inf, which one token of a row may have, forces it. `assistant_model` is a smaller Model with the same
    vocabulary, for speculative decoding; `prefix_store` is a PrefixStore, a cache of prompt prefixes.
    `src_lang` and `tgt_lang` are the languages of a multilingual translator, by the names of tokenizer tokens
    ("fr_XX", "fra_Latn", or "fr" for "__fr__"). Errors as `generate_ids`.

    Many prompts run in batches of similar lengths. `batch_tokens` is the most tokens of a batch at its end:
    prompts, new tokens and padding, for each beam or returned sequence; a prompt that needs more runs alone.
    With do_sample and a seed, the samples of a prompt depend only on the seed and on its index among the
    prompts: neither on the batches nor on the other prompts. `first_place` is the index of the first prompt,
    for a call that continues others.
    """
    options |= {
        "logits_processor": logits_processor,
        "batch_tokens": batch_tokens,
        "first_place": first_place,
        "progress": progress,
    }
    if bundle.draws_questions:
        check_reads(bundle, False, audio is not None)
        refuse_languages(src_lang, tgt_lang)
        return _drawn(bundle, prompts, images, **options)
    if bundle.prompt_kind != TOKENS:
        check_reads(bundle, images is not None, audio is not None)
    if bundle.prompt_kind == SOUND:
        check_task(bundle, "generate")
        refuse_languages(src_lang, tgt_lang)
        if "timestamps" in options:
            raise InputError("timestamps is an option of transcribe, and generate gives texts; leave it out")
        return cast("str | list[str]", speech_recognition.transcribe(bundle, prompts, **options))
    if bundle.prompt_kind == IMAGE:
        refuse_languages(src_lang, tgt_lang)
        return image_to_text(bundle, prompts, **options)
    tiles = tiles_of(bundle, images, prompts, audio)
    inputs, single = inputs_of(bundle, prompts, src_lang, tiles)
    options |= target_option(bundle, tgt_lang)
    results = finished(bundle, inputs, read_media(bundle, inputs, tiles), **options)
    texts = decoded(bundle, [result.tokens for result in results])
    copies = len(texts) // max(1, len(inputs))
    if copies > 1:
        grouped = [texts[at : at + copies] for at in range(0, len(texts), copies)]
        return grouped[0] if single else grouped
    return texts[0] if single else texts


def _drawn(
    bundle: LoadedBundle,
    questions: Any,
    images: PromptImages | None,
    *,
    batch_tokens: int,
    first_place: int,
    progress: Progress | None,
    **options: Any,
) -> str | list[str]:
    """The answers to questions that are drawn above their images. Arguments and errors as `generate`."""
    request = drawn_questions.request(bundle, questions, images, **options)
    texts = texts_of(request, batch_tokens, first_place, progress)
    return texts[0] if isinstance(questions, str) else texts


def generate_ids(
    bundle: LoadedBundle, input_ids: Sequence[Sequence[int] | np.ndarray], **options: Any
) -> list[list[int]]:
    """The new token ids for rows of ids of any lengths; for spectrograms (speech) or pixels (images).

    Arguments as `generate`. A row ends after an end-of-sequence token, which it includes, at a stop string,
    or after `max_new_tokens`: by default the checkpoint's setting, or else 20, within the model's longest
    sequence. With num_return_sequences above 1 there are that many rows for each input, the best first.
    Raises InputError for a task that does not generate, for rows that are too long, and for options that are
    unknown or out of range.
    """
    return [result.tokens for result in generate_with_scores(bundle, input_ids, **options)]


def generate_with_scores(
    bundle: LoadedBundle,
    input_ids: Sequence[Sequence[int] | np.ndarray],
    *,
    images: Sequence[Any] | None = None,
    audio: Sequence[Any] | None = None,
    logits_processor: LogitsProcessor | None = None,
    log_probs: bool = False,
    batch_tokens: int = CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> list[Generated]:
    """As `generate_ids`, with the scores of beams or, if `log_probs`, the tokens' log-probabilities.

    `images` or `audio` are those of each row, which has a token for each of their vectors.
    """
    check_flag("log_probs", log_probs)
    check_place(first_place)
    tiles = tiles_of(bundle, images, input_ids, audio)
    options |= {"logits_processor": logits_processor, "batch_tokens": batch_tokens, "progress": progress}
    media = read_media(bundle, input_ids, tiles)
    return finished(bundle, input_ids, media, log_probs=log_probs, first_place=first_place, **options)


def finished(
    bundle: LoadedBundle,
    input_ids: Sequence[Sequence[int] | np.ndarray],
    media: Sequence[Media],
    *,
    logits_processor: LogitsProcessor | None = None,
    log_probs: bool = False,
    batch_tokens: int = CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> list[Generated]:
    """The new tokens of rows with media."""
    check_place(first_place)
    request = request_of(bundle, input_ids, logits_processor, options)
    request = replace(request, log_probs=log_probs, first_place=first_place, media=media)
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
    """The answer to a conversation, by the checkpoint's chat template.

    `messages` are {"role": "user", "content": ...} and so on; a model that reads images takes lists of parts
    as content, {"type": "image", "image": ...} with a path, bytes, a Pillow image, an array or a data URL,
    and {"type": "text", "text": ...}. One that reads sounds takes {"type": "audio", "audio": ...}, with a
    path, bytes, an array at its rate or a data URL. `tools` are the functions that the model may call,
    {"type": "function", "function": {"name": ..., "description": ..., "parameters": ...}}, as in
    transformers' `apply_chat_template`. A call is text, in the form that the checkpoint was trained to write.
    `chat_template` is the name of one of several templates, by default "default", or "tool_use" with tools.
    `chat_template_kwargs` are values for the template, such as {"enable_thinking": False} or {"documents":
    [...]}. With `continue_final_message` the answer continues the content of the last message, or the key of
    it that is named, such as "reasoning_content". Errors as `generate`; also for a missing template, and for
    tools or a value that the template does not read.
    """
    conversation = Conversation(messages, tools, chat_template, chat_template_kwargs, continue_final_message)
    input_ids, media = chat_inputs(bundle, conversation)
    [result, *_] = finished(bundle, input_ids, media, logits_processor=logits_processor, **options)
    return bundle.files.text.decode([result.tokens])[0]
