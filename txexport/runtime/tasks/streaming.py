"""Streaming: generated text in pieces that never split a character."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from txexport.contracts.stage import IMAGE, SOUND, TOKENS
from txexport.errors import InputError
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.pictures import check_reads, read_media, tiles_of
from txexport.runtime.generation.prompts import chat_inputs, inputs_of, target_option
from txexport.runtime.generation.requests import GenerationRequest, LogitsProcessor, request_of
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.chat import Conversation, Messages, Tools
from txexport.runtime.preprocessing.languages import refuse_languages
from txexport.runtime.preprocessing.pieces import Pieces
from txexport.runtime.tasks import drawn_questions, image_to_text, speech_recognition


def stream(bundle: LoadedBundle, prompt: str, **options: Any) -> Iterator[str]:
    """Stream the new text for one prompt in pieces that never split a character.

    Arguments and errors as `generate`; errors are raised at the first piece.
    """
    for name in ("images", "audio"):
        if options.get(name) is not None:
            options[name] = [options[name]]
    for _, piece in stream_many(bundle, [prompt], **options):
        yield piece


def stream_many(
    bundle: LoadedBundle,
    prompts: Sequence,
    *,
    images: Sequence[Any] | None = None,
    audio: Sequence[Any] | None = None,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    logits_processor: LogitsProcessor | None = None,
    batch_tokens: int = CACHE_TOKENS,
    **options: Any,
) -> Iterator[tuple[int, str]]:
    """Stream the new texts for several prompts: each piece with the index of its prompt.

    The pieces of a batch are interleaved, and batches follow one another, as in `generate`. Arguments and
    errors as there; num_return_sequences must be 1.
    """
    if bundle.prompt_kind != TOKENS:
        check_reads(bundle, images is not None and not bundle.draws_questions, audio is not None)
    if bundle.prompt_kind == SOUND:
        check_task(bundle, "generate")
        refuse_languages(src_lang, tgt_lang)
        request = speech_recognition.request(bundle, prompts, logits_processor=logits_processor, **options)
    elif bundle.draws_questions:
        refuse_languages(src_lang, tgt_lang)
        request = drawn_questions.request(
            bundle, prompts, images, logits_processor=logits_processor, **options
        )
    elif bundle.prompt_kind == IMAGE:
        refuse_languages(src_lang, tgt_lang)
        request = image_to_text.request(bundle, prompts, logits_processor=logits_processor, **options)
    else:
        options |= target_option(bundle, tgt_lang)
        tiles = tiles_of(bundle, images, prompts, audio)
        inputs, _ = inputs_of(bundle, prompts, src_lang, tiles)
        request = request_of(bundle, inputs, logits_processor, options)
        request = replace(request, media=read_media(bundle, inputs, tiles))
    yield from _pieces(request, batch_tokens)


def stream_chat(
    bundle: LoadedBundle,
    messages: Messages,
    *,
    tools: Tools | None = None,
    chat_template: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    continue_final_message: bool | str = False,
    logits_processor: LogitsProcessor | None = None,
    **options: Any,
) -> Iterator[str]:
    """Stream the answer to a conversation; arguments and errors as `chat`."""
    conversation = Conversation(messages, tools, chat_template, chat_template_kwargs, continue_final_message)
    input_ids, media = chat_inputs(bundle, conversation)
    request = request_of(bundle, input_ids, logits_processor, options)
    request = replace(request, media=media)
    for _, piece in _pieces(request, CACHE_TOKENS):
        yield piece


def _pieces(request: GenerationRequest, batch_tokens: int) -> Iterator[tuple[int, str]]:
    if request.config.num_return_sequences > 1:
        count = request.config.num_return_sequences
        raise InputError(f"a stream has one text a prompt; num_return_sequences must be 1, and is {count}")
    pieces = [Pieces(request.bundle.files.text) for _ in request.inputs]
    _, steps = scheduler.run(request, batch_tokens)
    for step in steps:
        for place, token in step:
            piece = pieces[place].add(token)
            if piece:
                yield place, piece
    for place, left in enumerate(pieces):
        if rest := left.rest():
            yield place, rest
