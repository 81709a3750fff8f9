"""Questions that are drawn above their images, and answered by a decoder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from txexport.errors import InputError, counted
from txexport.runtime.generation.requests import GenerationRequest, LogitsProcessor, request_of
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.message_images import PromptImages, listed
from txexport.runtime.preprocessing.text import as_texts


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
    check_task(bundle, "generate")
    texts = as_texts(questions)
    pairs = []
    for text, some in zip(
        texts, [[]] * len(texts) if images is None else listed(images, questions), strict=True
    ):
        if len(some) != 1:
            raise InputError(f"a question has {counted(len(some), 'image')}, expected one")
        if not text.strip():
            raise InputError("a question is empty, expected some text")
        pairs.append((text, some[0]))
    result = request_of(bundle, pairs, logits_processor, options)
    if (count := result.config.num_return_sequences) > 1:
        raise InputError(f"an image has one answer; num_return_sequences must be 1, and is {count}")
    flattened = bundle.files.flattened
    return replace(result, read=lambda rows: [flattened.asked(image, text) for text, image in rows])
