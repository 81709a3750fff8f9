"""What bundles that see are for: images in, labels out, as in tasks.py; I images, T texts, W width."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import (
    IMAGE_EMBEDS,
    LAST_HIDDEN_STATE,
    LOGITS,
    LOGITS_PER_IMAGE,
    PIXEL_VALUES,
    POOLER_OUTPUT,
    TEXT_EMBEDS,
)
from txexport.errors import InputError, shown
from txexport.runtime.batches import BATCH_TOKENS, Progress
from txexport.runtime.generation.options import check_count, check_flag
from txexport.runtime.preprocessing.text import as_texts
from txexport.runtime.session import finite
from txexport.runtime.tasks.feature_extraction import embed
from txexport.runtime.tasks.labels import Label, labelled, ranked, softmax
from txexport.runtime.tasks.pooling import unit
from txexport.runtime.tasks.text_tasks import check_task

if TYPE_CHECKING:
    from txexport.runtime.model import Model
    from txexport.runtime.preprocessing.images import Source

BATCH_IMAGES = 8


def classify_image(
    model: "Model",
    images: "Source | Sequence[Source]",
    *,
    top_k: int | None = 5,
    batch_size: int = BATCH_IMAGES,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """The `top_k` likeliest labels of an image, or all of them for None, likeliest first.

    `batch_size` is how many images a batch may have. Scores are as those of `classify`.
    """
    check_task(model, "classify_image")
    sources, width = as_sources(images), model.sessions[roles.MODEL].outputs[LOGITS].shape[-1]
    batches = [outputs[LOGITS] for outputs in _run(model, roles.MODEL, sources, batch_size, progress)]
    found = labelled(model.config, np.concatenate([np.empty((0, width), np.float32), *batches]), top_k)
    return found if _several(images) else found[0]


def embed_image(
    model: "Model",
    images: "Source | Sequence[Source]",
    *,
    pooling: str | None = None,
    normalize: bool = False,
    batch_size: int = BATCH_IMAGES,
    progress: Progress | None = None,
) -> np.ndarray:
    """Vectors of images (I,W) float32, or (W) for one image.

    Of two towers, those that `match` compares with what `embed` gives of texts; they have length 1.
    Of an encoder of images, by `pooling`, the vector of its first token ("cls", the default), the mean of
    the patches' ("mean") or what the checkpoint's pooler makes of the first ("pooler"); `normalize` makes
    their length 1. `batch_size` is how many images a batch may have. Raises InputError for another pooling.
    """
    check_task(model, "embed_image")
    check_flag("normalize", normalize)
    sources, towers = as_sources(images), roles.VISION in model.sessions
    role = roles.VISION if towers else roles.MODEL
    ways = {} if towers else _ways(model)
    if pooling is not None and (not isinstance(pooling, str) or pooling not in ways):
        raise InputError(f"pooling is {shown(pooling)}, expected {' or '.join(ways) or 'none'}")
    way = (lambda outputs: outputs[IMAGE_EMBEDS]) if towers else ways[pooling or "cls"]
    output = model.sessions[role].outputs[IMAGE_EMBEDS if towers else LAST_HIDDEN_STATE]
    batches = [way(outputs) for outputs in _run(model, role, sources, batch_size, progress)]
    vectors = np.concatenate([np.empty((0, output.shape[-1]), np.float32), *batches])
    vectors = unit(vectors) if normalize else vectors
    return vectors if _several(images) else vectors[0]


def _ways(model: "Model") -> dict[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]]:
    """How an encoder's outputs become one vector (W) an image."""
    learned = model.manifest.spec["encoder"]["embedding"]["tokens"]
    ways: dict[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]] = {
        "cls": lambda outputs: outputs[LAST_HIDDEN_STATE][:, 0],
        "mean": lambda outputs: outputs[LAST_HIDDEN_STATE][:, learned:].mean(axis=1),
    }
    if POOLER_OUTPUT in model.sessions[roles.MODEL].outputs:
        ways["pooler"] = lambda outputs: outputs[POOLER_OUTPUT]
    return ways


def match(
    model: "Model",
    images: "Source | Sequence[Source]",
    texts: Sequence[str],
    *,
    template: str = "{}",
    truncate: bool = False,
    batch_size: int = BATCH_IMAGES,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """How likely each of `texts` is the one that fits an image (Radford et al. 2021, 3.1), likeliest first.

    `template` is what the model reads of a text, which takes the place of {} in it, as in "a photo of {}.".
    """
    check_task(model, "match")
    labels, sources = as_texts(texts), as_sources(images)
    if not labels or not isinstance(template, str) or "{}" not in template:
        raise InputError(f"{len(labels)} texts and template {shown(template)}, expected texts, {{}} for each")
    read = [template.replace("{}", label) for label in labels]
    vectors = embed(model, read, truncate=truncate, batch_tokens=batch_tokens)
    found: list[list[Label]] = []
    for outputs in _run(model, roles.VISION, sources, batch_size, progress):
        pair = {TEXT_EMBEDS: vectors, IMAGE_EMBEDS: outputs[IMAGE_EMBEDS]}
        logits = finite(model.sessions[roles.SIMILARITY].run(pair))[LOGITS_PER_IMAGE]  # (I, T)
        found += [ranked(labels, row, None) for row in softmax(logits)]
    return found if _several(images) else found[0]


def _run(
    model: "Model", role: str, sources: Sequence, batch_size: int, progress: Progress | None
) -> Iterator[Mapping[str, np.ndarray]]:
    """What the graph `role` makes of each batch of images."""
    check_count("batch_size", batch_size)
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        yield finite(model.sessions[role].run({PIXEL_VALUES: model.images.pixels(batch)}))
        if progress is not None:
            progress(first + len(batch), len(sources))


def _several(images: object) -> bool:
    return isinstance(images, Sequence) and not isinstance(images, str | bytes)


def as_sources(images: "Source | Sequence[Source]") -> Sequence:
    """One image or several as a list."""
    return images if isinstance(images, Sequence) and not isinstance(images, str | bytes) else [images]
