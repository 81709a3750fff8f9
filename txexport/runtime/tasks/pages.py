"""Pages as images, ranked for queries by late interaction; T tokens, V numbers a vector.

Faysse et al. 2024.
"""

from collections.abc import Sequence

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import ATTENTION_MASK, EMBEDDINGS, IMAGE_FEATURES, INPUT_IDS, PIXEL_VALUES
from txexport.errors import BundleError, InputError
from txexport.runtime import memory
from txexport.runtime.batches import BATCH_TOKENS, batches_by_length, check_room, text_limit
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.opened_images import Source, several
from txexport.runtime.preprocessing.page_texts import PageTexts
from txexport.runtime.preprocessing.text import as_rows, as_texts, pad
from txexport.runtime.session import finite
from txexport.runtime.tasks.image_tasks import BATCH_IMAGES, as_sources
from txexport.runtime.tasks.late_interaction import max_sim
from txexport.runtime.tasks.text_tasks import Ranked, ranked_by_score
from txexport.support.arguments import check_count
from txexport.support.progress import ByInput, Progress, counting


def embed_queries(
    bundle: LoadedBundle,
    texts: str | Sequence[str],
    *,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> np.ndarray | list[np.ndarray]:
    """A vector for each token of a query, (T, V) float32 L2-normalised, as `process_queries` reads it.

    The checkpoint's prefix is put before the query, and ten padding tokens after it. Raises InputError for
    one that is too long.
    """
    check_task(bundle, "embed_queries")
    queries, reader = as_texts(texts), _texts(bundle)
    bundle.files.text_size.check(queries, text_limit(bundle.manifest), "shorten it")
    for query in queries:
        if reader.image_token in query:
            raise InputError(f"a query has {reader.image_token}, which stands for an image; leave it out")
    rows = reader.ids([reader.query(query) for query in queries])
    vectors = _vectors(bundle, rows, [None] * len(rows), batch_tokens, progress)
    return vectors[0] if isinstance(texts, str) else vectors


def embed_pages(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    batch_size: int = BATCH_IMAGES,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> np.ndarray | list[np.ndarray]:
    """A vector for each token of a page, (T, V) float32 L2-normalised, as `process_images` reads it.

    Tokens are those of the image, and of the checkpoint's prompt beside it. Raises InputError for an invalid
    image.
    """
    check_task(bundle, "embed_pages")
    check_count("batch_size", batch_size)
    sources, reader, tell = as_sources(images), _texts(bundle), counting(progress)
    vectors: list[np.ndarray] = []
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        features = [_features(bundle, source) for source in batch]
        rows = reader.ids([reader.page(len(one)) for one in features])
        for row, one in zip(rows, features, strict=True):
            if row.count(reader.token_id) != len(one):
                raise BundleError(
                    f"the text of a page has {row.count(reader.token_id)} tokens for images, expected "
                    f"{len(one)}; processor_config.json names others in visual_prompt_prefix"
                )
        vectors += _vectors(bundle, rows, features, batch_tokens, None)
        tell(first + len(batch), len(sources))
    return vectors if several(images) else vectors[0]


def rank_pages(
    bundle: LoadedBundle,
    queries: str | Sequence[str],
    images: "Source | Sequence[Source]",
    *,
    top_k: int | None = None,
    batch_size: int = BATCH_IMAGES,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Ranked] | list[list[Ranked]]:
    """The score of each page for a query, the best first.

    `images` are the pages, or their vectors, as `embed_pages` returns them. `corpus_id` is a page's index;
    `score` the sum, over the query's vectors, of the greatest product with one of the page's, as
    `score_retrieval` of transformers' processors computes it for a page alone. `top_k` is the most pages to
    return. Several queries have a list each.
    """
    check_task(bundle, "rank_pages")
    if top_k is not None:
        check_count("top_k", top_k)
    check_count("batch_size", batch_size)
    sources = as_sources(images)
    reads = not any(map(_are_vectors, sources))  # pages, which take longer than queries
    of_queries, of_pages = (None, progress) if reads else (progress, None)
    vectors = embed_queries(bundle, as_texts(queries), batch_tokens=batch_tokens, progress=of_queries)
    pages = _page_vectors(bundle, sources, batch_size, batch_tokens, of_pages) if len(vectors) else []
    scores = np.array([[max_sim(query, page) for page in pages] for query in vectors])
    results = ranked_by_score(scores.reshape(len(vectors), len(pages)), top_k)
    return results[0] if isinstance(queries, str) else results


def _page_vectors(
    bundle: LoadedBundle, images: Sequence, batch_size: int, batch_tokens: int, progress: Progress | None
) -> Sequence[np.ndarray]:
    """The vectors of pages, or those that `images` are. Raises InputError for vectors of another size."""
    vectors_already = [_are_vectors(one) for one in images]
    if not any(vectors_already):
        sizes = {"batch_size": batch_size, "batch_tokens": batch_tokens}
        vectors = embed_pages(bundle, images, **sizes, progress=progress)
        assert isinstance(vectors, list)
        return vectors
    width = bundle.sessions[roles.MODEL].width(EMBEDDINGS)
    for number, one in enumerate(images):
        if not vectors_already[number] or one.ndim != 2 or one.shape[1] != width or not len(one):
            shape = one.shape if isinstance(one, np.ndarray) else type(one).__name__
            raise InputError(
                f"page {number + 1} of {len(images)} is {shape}, expected vectors (T, {width}) as those of "
                "the other pages"
            )
        if not np.isfinite(one).all():
            raise InputError(f"page {number + 1} of {len(images)} has NaN or infinity, expected vectors")
    return images


def _are_vectors(page: object) -> bool:
    return isinstance(page, np.ndarray) and page.dtype.kind == "f"


def _texts(bundle: LoadedBundle) -> PageTexts:
    assert bundle.image_token_id is not None
    return PageTexts(bundle.files, bundle.image_token_id)


def _features(bundle: LoadedBundle, source: Source) -> np.ndarray:
    """The vectors (N,W) of a page's image."""
    session, facts = bundle.sessions[roles.IMAGE_ENCODER], bundle.stage(roles.IMAGE_ENCODER).facts
    inputs = bundle.files.images.inputs([source])
    if facts.patch_heads:
        count = len(inputs[PIXEL_VALUES])
        what = f"attention over the {count:,} patches of an image (a lower max_pixels makes fewer)"
        memory.check(what, 4 * facts.patch_heads * count**2)
    return finite(session.run(inputs))[IMAGE_FEATURES]


def _vectors(
    bundle: LoadedBundle,
    rows: list[list[int]],
    features: Sequence[np.ndarray | None],
    batch_tokens: int,
    progress: Progress | None,
) -> list[np.ndarray]:
    """The vectors of rows of tokens, each with those of its image, if it has one."""
    session, limit = bundle.sessions[roles.MODEL], text_limit(bundle.manifest)
    as_rows(rows, bundle.vocab_size(roles.MODEL))
    lengths = list(map(len, rows))
    longest = max(lengths, default=0)
    if limit is not None and longest > limit:
        of_page = features[lengths.index(longest)] is not None
        what, remedy = ("a page", "make it smaller") if of_page else ("a query", "shorten it")
        raise InputError(f"{what} of {longest:,} tokens is longer than the model's {limit:,}; {remedy}")
    none = np.zeros((0, int(session.inputs[IMAGE_FEATURES].shape[1])), np.float32)
    tell = ByInput(progress, range(len(rows)))
    vectors = [none] * len(rows)
    for indices in batches_by_length(lengths, lengths, batch_tokens):
        check_room(session, len(indices), max(lengths[place] for place in indices))
        ids, mask = pad([rows[place] for place in indices], 0)
        read = np.concatenate([none, *(one for place in indices if (one := features[place]) is not None)])
        outputs = finite(session.run({INPUT_IDS: ids, ATTENTION_MASK: mask, IMAGE_FEATURES: read}))
        for place, row in zip(indices, outputs[EMBEDDINGS], strict=True):
            vectors[place] = row[: lengths[place]]
        tell(indices)
    return vectors
