"""Image captioning and text recognition: an image encoder with a text decoder."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from txexport.errors import InputError
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.requests import (
    GenerationRequest,
    LogitsProcessor,
    check_place,
    request_of,
)
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.opened_images import Source, several
from txexport.runtime.tasks.image_tasks import as_sources
from txexport.support.progress import Progress


def image_to_text(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    batch_tokens: int = scheduler.CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> str | list[str]:
    """The caption or the transcribed text of an image, or of each of several.

    Images are those that `Model.images` takes. `options` are those of `generate`. Images are opened batch by
    batch; each counts as many tokens as the encoder outputs. Raises InputError for an invalid image, and for
    num_return_sequences above 1.
    """
    texts = texts_of(request(bundle, images, **options), batch_tokens, first_place, progress)
    return texts if several(images) else texts[0]


def texts_of(
    request: GenerationRequest, batch_tokens: int, first_place: int, progress: Progress | None
) -> list[str]:
    """The text of each row of a request. Arguments as those of `image_to_text`."""
    check_place(first_place)
    results = scheduler.finished(replace(request, first_place=first_place), batch_tokens, progress)
    return request.bundle.files.text.decode([result.tokens for result in results])


def request(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    logits_processor: LogitsProcessor | None = None,
    **options: Any,
) -> GenerationRequest:
    """The request for the texts of images, which are opened batch by batch. Errors as `image_to_text`."""
    check_task(bundle, "image_to_text")
    files = bundle.files
    read = files.flattened.pixels if bundle.flattens_images else files.images.pixels
    return read_later(bundle, as_sources(images), read, logits_processor, **options)


def read_later(
    bundle: LoadedBundle,
    rows: Sequence[Any],
    read: Callable[[Sequence], Sequence | np.ndarray],
    logits_processor: LogitsProcessor | None,
    **options: Any,
) -> GenerationRequest:
    """The request for the text of each row, of which `read` makes the inputs, batch by batch.

    Raises InputError for num_return_sequences above 1.
    """
    result = request_of(bundle, rows, logits_processor, options)
    if (count := result.config.num_return_sequences) > 1:
        raise InputError(f"an image has one text; num_return_sequences must be 1, and is {count}")
    return replace(result, read=read)
