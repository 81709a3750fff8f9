"""Objects in images that texts describe; B images, P patches, T texts."""

from collections.abc import Sequence

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import IMAGE_EMBEDS, LOGITS, PRED_BOXES, TEXT_EMBEDS
from txexport.errors import InputError, counted, shown
from txexport.runtime.batches import BATCH_TOKENS
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.images import Prepared
from txexport.runtime.preprocessing.opened_images import Source, several
from txexport.runtime.preprocessing.text import as_texts
from txexport.runtime.session import finite
from txexport.runtime.tasks.detection import Detection, box_of, check_threshold, corners_of
from txexport.runtime.tasks.feature_extraction import embed
from txexport.runtime.tasks.image_tasks import BATCH_IMAGES, as_sources, each_output
from txexport.runtime.tasks.labels import sigmoid
from txexport.runtime.tasks.phrases import Phrases
from txexport.support.arguments import check_count
from txexport.support.progress import Progress, counting


def find(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    texts: Sequence[str],
    *,
    template: str = "{}",
    threshold: float = 0.1,
    truncate: bool = False,
    batch_size: int = BATCH_IMAGES,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Detection] | list[list[Detection]]:
    """The objects in an image, or in each of several, that `texts` describe, likeliest first.

    Each text has all objects that are likelier than `threshold`, so that one may be there under several
    texts. The model reads `template` with a text in place of {}, as in "a photo of {}". Boxes are as those
    of `detect`. Grounding DINO reads all texts as phrases of one, in lowercase: an object is there once,
    under the text whose token is likeliest. Raises InputError for an invalid image or threshold, for no
    texts, for a template without {}, and for such a phrase with a full stop.
    """
    check_task(bundle, "find")
    check_count("batch_size", batch_size)
    check_threshold(threshold)
    labels = as_texts(texts)
    if not labels or not isinstance(template, str) or "{}" not in template:
        raise InputError(
            f"{counted(len(labels), 'text')} and template {shown(template)}, expected texts, {{}} for each"
        )
    read = [template.replace("{}", label) for label in labels]
    if roles.SIMILARITY not in bundle.sessions:
        phrases = Phrases(bundle, labels, read, truncate)
        return _by_phrases(phrases, images, threshold, batch_size, progress)
    vectors = embed(bundle, read, truncate=truncate, batch_tokens=batch_tokens)
    sources, tell = as_sources(images), counting(progress)
    results: list[list[Detection]] = []
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        for image, outputs in each_output(bundle, batch, roles.VISION):
            compared = {TEXT_EMBEDS: vectors, IMAGE_EMBEDS: outputs[IMAGE_EMBEDS][None]}
            [logits] = finite(bundle.sessions[roles.SIMILARITY].run(compared))[LOGITS]  # (P, T)
            sides = _sides(image, bundle.files.images.squares)
            results.append(_objects(sides, sigmoid(logits), outputs[PRED_BOXES], labels, threshold))
        tell(first + len(batch), len(sources))
    return results if several(images) else results[0]


def _by_phrases(
    phrases: Phrases,
    images: "Source | Sequence[Source]",
    threshold: float,
    batch_size: int,
    progress: Progress | None,
) -> list[Detection] | list[list[Detection]]:
    """The objects that a model finds which reads all texts as phrases of one."""
    sources, tell = as_sources(images), counting(progress)
    results: list[list[Detection]] = []
    for first in range(0, len(sources), batch_size):
        results += phrases.objects(sources[first : first + batch_size], threshold)
        tell(len(results), len(sources))
    return results if several(images) else results[0]


def _sides(image: Prepared, square: bool) -> tuple[int, int]:
    """The height and width in pixels of an image, or of the square that it was padded to."""
    longest = max(image.height, image.width)
    return (longest, longest) if square else (image.height, image.width)


def _objects(
    sides: tuple[int, int],
    chances: np.ndarray,
    boxes: np.ndarray,
    labels: Sequence[str],
    threshold: float,
) -> list[Detection]:
    """The objects by the chances (P,T) of patches, and boxes (P,4) as shares of `sides`, height and width."""
    corners = corners_of(boxes, *sides)  # (P, 4)
    order = np.argsort(-chances, axis=None, kind="stable")
    likely = order[chances.ravel()[order] > threshold]
    return [
        {
            "label": labels[place % len(labels)],
            "score": float(chances.flat[place]),
            "box": box_of(corners[place // len(labels)]),
        }
        for place in likely.tolist()
    ]
