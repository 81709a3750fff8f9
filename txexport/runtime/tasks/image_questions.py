"""Questions about images: a decoder that reads images among its tokens."""

from collections.abc import Sequence
from typing import Any, cast

from txexport.errors import InputError, shown
from txexport.runtime.generation.media import Media
from txexport.runtime.generation.prompts import chat_inputs
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.opened_images import Source, several
from txexport.runtime.tasks.image_tasks import as_sources
from txexport.runtime.tasks.text_generation import finished, generate
from txexport.support.progress import Progress

QUESTION = "Describe the image."


def ask_image(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    question: str = QUESTION,
    *,
    batch_tokens: int = CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> str | list[str]:
    """The answer to a question about an image, or about each of several, by the checkpoint's chat template.

    Florence-2 has none: its questions are tasks, such as <CAPTION> or <OD>, or words. Its answers keep the
    tokens of places, <loc_0> to <loc_999>, which are thousandths of the image's width and height;
    `txexport.runtime.placed_objects` makes objects of them.

    Images are those that `Model.images` takes. `options` are those of `generate`. Raises InputError for an
    invalid image, and for num_return_sequences above 1; other errors as `chat`.
    """
    check_task(bundle, "ask_image")
    if not isinstance(question, str) or not question.strip():
        raise InputError(f"question is {shown(question)}, expected some text")
    if options.get("num_return_sequences", 1) != 1:
        raise InputError("an image has one answer; num_return_sequences must be 1")
    options |= {"batch_tokens": batch_tokens, "first_place": first_place, "progress": progress}
    if bundle.is_encoder_decoder:
        sources = as_sources(images)
        answers = cast(
            "list[str]",
            generate(bundle, [question] * len(sources), images=[[one] for one in sources], **options),
        )
        return answers if several(images) else answers[0]
    rows: list[list[int]] = []
    media: list[Media] = []
    for image in as_sources(images):
        content = [{"type": "image", "image": image}, {"type": "text", "text": question}]
        ids, pictures = chat_inputs(bundle, Conversation([{"role": "user", "content": content}]))
        rows += ids
        media += pictures
    results = finished(bundle, rows, media, **options)
    texts = bundle.files.text.decode([result.tokens for result in results])
    return texts if several(images) else texts[0]
