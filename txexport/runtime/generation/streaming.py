"""New text in pieces as they come, none of which splits a character. Functions are methods of Model."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from txexport.errors import InputError
from txexport.runtime.generation import requests
from txexport.runtime.generation.generation import LogitsProcessor
from txexport.runtime.generation.requests import CACHE_TOKENS
from txexport.runtime.preprocessing import chat
from txexport.runtime.preprocessing.chat import Messages
from txexport.runtime.preprocessing.languages import refuse_languages
from txexport.runtime.preprocessing.text import Pieces
from txexport.runtime.tasks import speech_recognition

if TYPE_CHECKING:
    from txexport.runtime.model import Model


def stream(model: "Model", prompt: str, **options: Any) -> Iterator[str]:
    """The new text for one prompt in pieces as they come, none of which splits a character."""
    for _, piece in model.stream_many([prompt], **options):
        yield piece


def stream_many(
    model: "Model",
    prompts: Sequence,
    *,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    logits_processor: LogitsProcessor | None = None,
    batch_tokens: int = CACHE_TOKENS,
    **options: Any,
) -> Iterator[tuple[int, str]]:
    """As `stream`, for several prompts: each piece with its prompt's number.

    Those of one batch come side by side, and batches one after another, as `generate` makes them.
    """
    if model.is_speech:
        refuse_languages(src_lang, tgt_lang)
        request = speech_recognition.request(model, prompts, logits_processor=logits_processor, **options)
    else:
        options |= model.target(tgt_lang)
        request = model.request(model.rows(prompts, src_lang)[0], logits_processor, options)
    yield from _pieces(model, request, batch_tokens)


def stream_chat(
    model: "Model", messages: Messages, *, logits_processor: LogitsProcessor | None = None, **options: Any
) -> Iterator[str]:
    """As `chat`, in pieces as they come."""
    rows = model.plain(chat.prompt(model.folder, messages))
    for _, piece in _pieces(model, model.request(rows, logits_processor, options), CACHE_TOKENS):
        yield piece


def _pieces(model: "Model", request: requests.Request, batch_tokens: int) -> Iterator[tuple[int, str]]:
    if request.config.num_return_sequences > 1:
        raise InputError("a stream has one text a prompt; num_return_sequences must be 1")
    pieces = [Pieces(model.text) for _ in request.rows]
    _, steps = requests.run(model, request, batch_tokens, None)
    for step in steps:
        for place, token in step:
            piece = pieces[place].add(token)
            if piece:
                yield place, piece
    for place, left in enumerate(pieces):
        if rest := left.rest():
            yield place, rest
