"""Questions that are drawn above their images, and answered by a decoder."""

from collections.abc import Sequence
from typing import Any

from txexport.errors import InputError, counted
from txexport.runtime.generation.requests import GenerationRequest, LogitsProcessor
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.message_images import PromptImages, listed
from txexport.runtime.preprocessing.text import as_texts
from txexport.runtime.tasks.image_to_text import read_later


def request(
    bundle: LoadedBundle,
    questions: str | Sequence[str],
    images: PromptImages | None,
    *,
    logits_processor: LogitsProcessor | None = None,
    **options: Any,
) -> GenerationRequest:
    """The request for answers to questions, each about one image; images are opened batch by batch.

    Raises InputError for a question without an image, with several, or of no text, where there is no font to
    draw it with, and for num_return_sequences above 1.
    """
    texts, pairs = as_texts(questions), []
    of_each = [[]] * len(texts) if images is None else listed(images, questions)
    for text, some in zip(texts, of_each, strict=True):
        if len(some) != 1:
            raise InputError(f"a question has {counted(len(some), 'image')}, expected one")
        if not text.strip():
            raise InputError("a question is empty, expected some text")
        pairs.append((some[0], text))
    return read_later(bundle, pairs, bundle.files.flattened.asked, logits_processor, **options)
