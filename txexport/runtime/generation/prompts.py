"""Prompts to model inputs: token ids of texts, spectrograms of sounds, pixels of images."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import TypeAlias

import numpy as np

from txexport.contracts.stage import IMAGE, SOUND
from txexport.errors import InputError
from txexport.runtime.generation.media import Media
from txexport.runtime.generation.pictures import Piece, check_reads, prompts_of, read_media
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing import chat
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.chat_messages import check_messages
from txexport.runtime.preprocessing.languages import in_language, language_token
from txexport.runtime.preprocessing.message_images import without_images
from txexport.runtime.preprocessing.message_sounds import without_sounds
from txexport.runtime.preprocessing.opened_images import several
from txexport.runtime.preprocessing.text import as_texts

Prompts: TypeAlias = str | Path | np.ndarray | Sequence


def inputs_of(
    bundle: LoadedBundle,
    prompts: Prompts,
    language: str | None = None,
    images: Sequence[Sequence[Piece]] = (),
) -> tuple[list, bool]:
    """Model inputs for prompts, and whether there is a single prompt.

    Rows of ids for texts, marked as `language`, with the tokens for the images of each; spectrograms (M,F)
    for sounds; pixels (3,H,W) for images.
    """
    check_task(bundle, "generate")
    if bundle.prompt_kind == SOUND:
        single = isinstance(prompts, str | Path | np.ndarray)
        return list(bundle.files.extractor.features(prompts)), single
    if bundle.prompt_kind == IMAGE:
        files = bundle.files
        read = files.flattened.pixels if bundle.flattens_images else files.images.pixels
        return list(read(prompts)), not several(prompts)
    text, texts = bundle.files.text, as_texts(prompts)  # type: ignore[arg-type]
    pictured = prompts_of(bundle) if bundle.reads_media else None
    adds = pictured is None or pictured.adds_tokens
    if pictured is not None and (any(images) or pictured.rewrites):
        pairs = zip(texts, images or repeat(()), strict=bool(images))
        texts = [pictured.expanded(one, some) for one, some in pairs]  # type: ignore[arg-type]
    bundle.files.text_size.check(texts, _longest(bundle))
    encodings, single = text.encode(texts, adds=adds), isinstance(prompts, str)
    for prompt, encoding in zip(texts, encodings, strict=True):
        if not encoding.ids:
            raise InputError(
                f"a prompt is {prompt[:40]!r}, for which the tokenizer gives no tokens; write some text"
            )
    if language is not None:
        return in_language(text, encodings, language), single
    return [encoding.ids for encoding in encodings], single


def chat_inputs(bundle: LoadedBundle, conversation: Conversation) -> tuple[list[list[int]], list[Media]]:
    """A conversation as a row of ids, and its media; its special tokens are those of the chat template.

    Where images are read, the tokenizer adds those at the start, unless the template writes one, as
    transformers' processors do.
    """
    check_task(bundle, "generate")
    messages, images = without_images(conversation.messages)
    messages, sounds = without_sounds(messages)
    check_messages(messages)
    check_reads(bundle, bool(images), bool(sounds))
    text, tiles, adds = (
        prompts_of(bundle).chat(replace(conversation, messages=messages), images or sounds)
        if bundle.reads_media
        else (chat.prompt(bundle.files.folder, conversation), [], False)
    )
    bundle.files.text_size.check(as_texts(text), _longest(bundle))
    [encoding] = bundle.files.text.encode([text], adds=adds)
    return [encoding.ids], read_media(bundle, [encoding.ids], [tiles])


def _longest(bundle: LoadedBundle) -> int | None:
    """The most tokens of a prompt."""
    return bundle.max_length(bundle.reader)


def target_option(bundle: LoadedBundle, language: str | None) -> dict[str, int]:
    """The generation option that sets a translator's target language."""
    return {} if language is None else {"forced_bos_token_id": language_token(bundle.files.text, language)}
