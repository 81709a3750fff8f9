"""Tasks of models that read words in their boxes on a page; N words, S tokens, W width, K labels.

The public functions are methods of Model.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypedDict

import numpy as np
from tokenizers import Encoding

from txexport.contracts import roles
from txexport.contracts.names import BBOX, LAST_HIDDEN_STATE, LOGITS, PIXEL_VALUES
from txexport.errors import InputError, shown
from txexport.runtime.batches import BATCH_TOKENS, CUT, longest_text, run
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.page_words import Page, PageWords, as_pages, special_boxes
from txexport.runtime.preprocessing.text import LONGEST_FIRST, Words
from txexport.runtime.tasks.labels import Label, labelled, names, softmax
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress

SHOWN = 5  # words by which error messages name a page
OVERLAP = 128  # tokens that windows share, as error messages advise


class WordLabel(TypedDict):
    """A word of a page, its likeliest label and the label's probability."""

    word: str
    label: str
    score: float


def tag_words(
    bundle: LoadedBundle,
    pages: Page | Sequence[Page],
    *,
    stride: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[WordLabel] | list[list[WordLabel]]:
    """The label of each word of a page, in the order of its words: that of the word's first token.

    Each of `pages` is {"words", "boxes"}, with boxes of 0 to 1000 or a "size" too, and an "image" where the
    model reads one. With `stride`, a page of more tokens than the model reads at once is read in
    windows that share that many tokens; a word in two of them has the label from the one in which it is
    farther from an end. OCR is not done here.
    """
    check_task(bundle, "tag_words")
    listed = as_pages(pages)
    labels = names(bundle.files.config, bundle.sessions[roles.MODEL].width(LOGITS))
    scores = _by_word(bundle, listed, LOGITS, stride, batch_tokens, progress)
    results: list[list[WordLabel]] = []
    for page, logits in zip(listed, scores, strict=True):
        shares = softmax(logits) if len(logits) else logits
        results.append(
            [
                {"word": word, "label": labels[int(share.argmax())], "score": float(share.max())}
                for word, share in zip(page.texts, shares, strict=True)
            ]
        )
    return results[0] if isinstance(pages, Mapping) else results


def embed_words(
    bundle: LoadedBundle,
    pages: Page | Sequence[Page],
    *,
    stride: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> np.ndarray | list[np.ndarray]:
    """A vector of each word of a page (N,W) float32: the last hidden state of its first token.

    `pages` and `stride` are as in `tag_words`.
    """
    check_task(bundle, "embed_words")
    vectors = _by_word(bundle, as_pages(pages), LAST_HIDDEN_STATE, stride, batch_tokens, progress)
    return vectors[0] if isinstance(pages, Mapping) else vectors


def classify_page(
    bundle: LoadedBundle,
    pages: Page | Sequence[Page],
    *,
    top_k: int | None = None,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """The labels of a page, likeliest first: all of them, or the first `top_k`.

    `pages` are as in `tag_words`, scores as those of `classify`. `truncate` leaves out the last words of a
    page of more tokens than the model reads.
    """
    check_task(bundle, "classify_page")
    check_flag("truncate", truncate)
    listed, limit = as_pages(pages), longest_text(bundle)
    items: list[Words] = [page.texts for page in listed]
    if truncate and limit is not None:
        encodings = bundle.files.text.windows(items, limit, split=True)
    else:
        encodings = _encoded(bundle, items, None, CUT)
    width = bundle.sessions[roles.MODEL].width(LOGITS)
    logits = np.empty((len(listed), width), np.float32)
    beside = _beside(bundle, listed, encodings, range(len(listed)), 0)
    for indices, outputs, _ in run(bundle, encodings, batch_tokens, progress, beside=beside):
        logits[indices] = outputs[LOGITS]
    labels = labelled(bundle.files.config, logits, top_k)
    return labels[0] if isinstance(pages, Mapping) else labels


def _by_word(
    bundle: LoadedBundle,
    pages: list[PageWords],
    output: str,
    stride: int | None,
    batch_tokens: int,
    progress: Progress | None,
) -> list[np.ndarray]:
    """Of each page the output at its words' first tokens (N,K). Raises InputError for a word without any."""
    items: list[Words] = [page.texts for page in pages]
    encodings = _encoded(bundle, items, stride, _in_windows(longest_text(bundle)))
    split = bundle.files.text.split(items) if any(one.overflowing for one in encodings) else []
    lengths = [Counter(one.word_ids) for one in split]
    width = bundle.sessions[roles.MODEL].width(output)
    results = [np.zeros((len(page.texts), width), np.float32) for page in pages]
    depths = [np.full(len(page.texts), -1) for page in pages]  # how far each is from an end of its window
    for owner, window, outputs in page_windows(bundle, pages, encodings, 0, batch_tokens, progress):
        previous = _continued(window, lengths[owner]) if lengths else None
        for place, word in enumerate(window.word_ids):
            if word is None:
                continue
            depth = min(place, len(window) - 1 - place)
            if word != previous and depth > depths[owner][word]:
                results[owner][word], depths[owner][word] = outputs[output][place], depth
            previous = word
    for page, reached in zip(pages, depths, strict=True):
        if (reached < 0).any():
            word = int(np.flatnonzero(reached < 0)[0])
            raise InputError(
                f"word {word + 1} of a page, {shown(page.texts[word])}, has no tokens; leave it out"
            )
    return results


def _continued(window: Encoding, lengths: Mapping[int | None, int]) -> int | None:
    """The word with which a window begins, if its first token is in another; `lengths` are in tokens."""
    listed = [word for word in window.word_ids if word is not None]
    if not listed or listed[0] == listed[-1]:
        return None
    return listed[0] if listed.count(listed[0]) < lengths[listed[0]] else None


def _in_windows(limit: int | None) -> str:
    """The advice to read a page in windows, with an overlap that fits into `limit` tokens."""
    overlap = OVERLAP if limit is None else min(OVERLAP, max(0, limit // 2 - 2))
    return f"read it in windows with stride={overlap} (--stride {overlap})"


def _encoded(bundle: LoadedBundle, items: Sequence[Words], stride: int | None, advice: str) -> list[Encoding]:
    """Words as tokens, in windows that share `stride` tokens, if there is one.

    Raises InputError for a page that is too long; the message ends with `advice`.
    """
    limit, text = longest_text(bundle), bundle.files.text
    if stride is not None:
        check_count("stride", stride, 0)
    if stride is not None and limit is not None:
        return text.windows(items, limit, stride, LONGEST_FIRST, split=True)
    encodings = text.split(items)
    for encoding in encodings:
        if limit is not None and len(encoding) > limit:
            raise InputError(f"a page of {len(encoding):,} tokens is longer than {limit}; {advice}")
    return encodings


def page_windows(
    bundle: LoadedBundle,
    pages: Sequence[PageWords],
    encodings: Sequence[Encoding],
    part: int,
    batch_tokens: int,
    progress: Progress | None,
) -> Iterator[tuple[int, Encoding, dict[str, np.ndarray]]]:
    """The page of each window, the window, and the outputs for it; words of text `part` are the page's."""
    windows = [(i, window) for i, first in enumerate(encodings) for window in (first, *first.overflowing)]
    owners, parts = [i for i, _ in windows], [window for _, window in windows]
    beside = _beside(bundle, pages, parts, owners, part)
    for indices, outputs, _ in run(bundle, parts, batch_tokens, progress, owners, beside=beside):
        for row, place in enumerate(indices):
            yield owners[place], parts[place], {name: array[row] for name, array in outputs.items()}


def _beside(
    bundle: LoadedBundle,
    pages: Sequence[PageWords],
    encodings: Sequence[Encoding],
    owners: Sequence[int],
    part: int,
) -> Callable[[Sequence[int]], dict[str, np.ndarray]]:
    """A function of a batch's indices to the inputs beside its tokens: their boxes, and images of pages.

    Raises InputError for a page without an image where the model reads it, or with one where it does not.
    """
    reads = PIXEL_VALUES in {port.name for port in bundle.manifest.graphs[roles.MODEL].inputs}
    for page in pages:
        if (page.image is not None) != reads:
            expected = 'reads the image of each page; give it as "image"' if reads else "reads no image"
            first = shown(" ".join(page.texts[:SHOWN]))
            raise InputError(
                f"the page of {first} has {'no' if reads else 'an'} image, and the model {expected}"
            )
    special = special_boxes(bundle.files.text.settings, bundle.manifest.model_type)

    def beside(indices: Sequence[int]) -> dict[str, np.ndarray]:
        boxes = np.zeros((len(indices), max(len(encodings[place]) for place in indices), 4), np.int64)
        for row, place in enumerate(indices):
            tokens = special.of_tokens(encodings[place], pages[owners[place]].boxes, part)
            boxes[row, : len(tokens)] = tokens
        if not reads:
            return {BBOX: boxes}
        images: dict[int, np.ndarray] = {}
        for place in indices:
            owner, image = owners[place], pages[owners[place]].image
            if owner not in images and image is not None:
                images[owner] = bundle.files.images.inputs([image])[PIXEL_VALUES]
        return {BBOX: boxes, PIXEL_VALUES: np.concatenate([images[owners[place]] for place in indices])}

    return beside
