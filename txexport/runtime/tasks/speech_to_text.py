"""Speech recognition by an encoder of sounds of any length and a decoder, without timestamps."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from txexport.contracts.names import ATTENTION_MASK
from txexport.errors import InputError, shown
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.requests import GenerationRequest, LogitsProcessor, request_of
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.audio import SINGLE
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.tasks import ctc
from txexport.runtime.tasks.audio_tasks import check_length, extractor_of
from txexport.runtime.tasks.whisper.options import NAMES
from txexport.support.progress import Progress

LANGUAGE = re.compile(r"<lang:\w+>")
OF_OTHERS = {*NAMES, *ctc.OPTIONS} - {"temperature"}


def transcribe(
    bundle: LoadedBundle,
    sounds: Any,
    *,
    batch_tokens: int = scheduler.CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> str | list[str]:
    """The text of a sound, or of each of several; `options` are those of `generate`.

    Each sound is read whole, and alone: without a mask, padding would change its text. Errors as `request`.
    """
    generation_request = replace(request(bundle, sounds, **options), first_place=first_place)
    results = scheduler.finished(generation_request, batch_tokens, progress)
    texts = bundle.files.text.decode([result.tokens for result in results])
    return texts[0] if isinstance(sounds, SINGLE) else texts


def request(
    bundle: LoadedBundle,
    sounds: Any,
    *,
    language: str | None = None,
    task: str | None = None,
    logits_processor: LogitsProcessor | None = None,
    **options: Any,
) -> GenerationRequest:
    """The request for texts of sounds, which are read one by one; a `temperature` above 0 samples.

    A `language` is that of the text, for a model with several: "fr" forces its token as the first.
    Raises InputError for another language, for translation, and for options of Whisper and CTC models alone,
    such as `timestamps`; for num_return_sequences above 1; and for a sound too short, or too long for memory
    or the model's positions.
    """
    if language is not None:
        options = {"forced_bos_token_id": _language_token(bundle, language)} | options
    if task not in (None, "transcribe"):
        raise InputError(
            f"task is {shown(task)}, expected 'transcribe' or None: this model does not translate"
        )
    for name in [option for option in options if option in OF_OTHERS]:
        if options.pop(name) is not None:
            raise InputError(
                f"{name} is an option of Whisper and CTC models, and this is neither; leave it out"
            )
    if options.get("temperature") == 0:
        del options["temperature"]
    elif options.get("temperature") is not None:
        options = {"do_sample": True} | options
    sources: Sequence = [sounds] if isinstance(sounds, SINGLE) else as_list(sounds)
    result = request_of(bundle, sources, logits_processor, options)
    if (count := result.config.num_return_sequences) > 1:
        raise InputError(f"a sound has one text; num_return_sequences must be 1, and is {count}")
    extractor = extractor_of(bundle, bundle.sessions[bundle.reader.role])

    def read(sounds: Sequence) -> np.ndarray:
        inputs = extractor.inputs(sounds)
        if ATTENTION_MASK in inputs and len(sounds) == 1:  # the extractor may have padded it
            inputs[extractor.port] = inputs[extractor.port][:, : int(inputs[ATTENTION_MASK].sum())]
        check_length(inputs, bundle)
        return inputs[extractor.port]

    return replace(result, read=read)


def _language_token(bundle: LoadedBundle, language: str) -> int:
    """The token of a language. Raises InputError for one that the model does not write."""
    tokenizer = bundle.files.text.tokenizer
    number = tokenizer.token_to_id(f"<lang:{language}>") if isinstance(language, str) else None
    if number is None:
        vocab = sorted(word for word in tokenizer.get_vocab() if LANGUAGE.fullmatch(word))
        known = ", ".join(word[len("<lang:") : -1] for word in vocab)
        expected = f"expected one of {known}" if known else "but this model has no token of a language"
        raise InputError(f"language is {shown(language)}, {expected}; or leave it out")
    return number
