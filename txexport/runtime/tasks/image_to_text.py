"""Image captioning and text recognition: an image encoder with a text decoder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

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
    check_place(first_place)
    generation_request = replace(request(bundle, images, **options), first_place=first_place)
    results = scheduler.finished(generation_request, batch_tokens, progress)
    texts = bundle.files.text.decode([result.tokens for result in results])
    return texts if several(images) else texts[0]


def request(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    logits_processor: LogitsProcessor | None = None,
    **options: Any,
) -> GenerationRequest:
    """The request for the texts of images, which are opened batch by batch. Errors as `image_to_text`."""
    check_task(bundle, "image_to_text")
    generation_request = request_of(bundle, as_sources(images), logits_processor, options)
    if (count := generation_request.config.num_return_sequences) > 1:
        raise InputError(f"an image has one text; num_return_sequences must be 1, and is {count}")
    files = bundle.files
    return replace(
        generation_request, read=files.flattened.pixels if bundle.flattens_images else files.images.pixels
    )
