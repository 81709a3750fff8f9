"""Prompts to model inputs: token ids of texts, spectrograms of sounds, pixels of images."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from txexport.contracts.stage import IMAGE, SOUND
from txexport.errors import InputError
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing import chat
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.images import several
from txexport.runtime.preprocessing.languages import in_language, language_token
from txexport.runtime.preprocessing.text import as_texts, tokenizing

Prompts: TypeAlias = str | Path | np.ndarray | Sequence


def inputs_of(bundle: LoadedBundle, prompts: Prompts, language: str | None = None) -> tuple[list, bool]:
    """Model inputs for prompts, and whether there is a single prompt.

    Rows of ids for texts, marked as `language`; spectrograms (M,F) for sounds; pixels (3,H,W) for images.
    """
    check_task(bundle, "generate")
    if bundle.prompt_kind == SOUND:
        single = isinstance(prompts, str | Path | np.ndarray)
        return list(bundle.files.extractor.features(prompts)), single
    if bundle.prompt_kind == IMAGE:
        return list(bundle.files.images.pixels(prompts)), not several(prompts)
    text, texts = bundle.files.text, as_texts(prompts)  # type: ignore[arg-type]
    bundle.files.text_size.check(texts, _longest(bundle))
    encodings, single = text.encode(texts), isinstance(prompts, str)
    for prompt, encoding in zip(texts, encodings, strict=True):
        if not encoding.ids:
            raise InputError(
                f"a prompt is {prompt[:40]!r}, for which the tokenizer gives no tokens; write some text"
            )
    if language is not None:
        return in_language(text, encodings, language), single
    return [encoding.ids for encoding in encodings], single


def chat_input_ids(bundle: LoadedBundle, conversation: Conversation) -> list[list[int]]:
    """A conversation as a row of ids; its special tokens are those that the chat template writes."""
    check_task(bundle, "generate")
    text = chat.prompt(bundle.files.folder, conversation)
    bundle.files.text_size.check([text], _longest(bundle))
    with tokenizing():  # encode_batch, since encode blocks all other threads
        [encoding] = bundle.files.text.tokenizer.encode_batch([text], add_special_tokens=False)
    return [encoding.ids]


def _longest(bundle: LoadedBundle) -> int | None:
    """The most tokens of a prompt."""
    return bundle.max_length(bundle.reader)


def target_option(bundle: LoadedBundle, language: str | None) -> dict[str, int]:
    """The generation option that sets a translator's target language."""
    return {} if language is None else {"forced_bos_token_id": language_token(bundle.files.text, language)}
