"""Sentence vectors of texts; W width."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from txexport.arguments import check_flag
from txexport.contracts import roles
from txexport.contracts.names import LAST_HIDDEN_STATE, TEXT_EMBEDS
from txexport.errors import InputError
from txexport.progress import Progress
from txexport.runtime.batches import BATCH_TOKENS, encode, run
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.text import as_texts
from txexport.runtime.tasks.pooling import Pooling, check_method


def embed(
    bundle: LoadedBundle,
    texts: str | Sequence[str],
    *,
    pooling: str | None = None,
    normalize: bool | None = None,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> np.ndarray:
    """See Model.embed."""
    check_task(bundle, "embed")
    if roles.TEXT in bundle.sessions:
        if pooling is not None or normalize is False:
            raise InputError("a model of texts and images pools its own way, to length 1; choose neither")
        return _of_tower(bundle, texts, truncate, batch_tokens, progress)
    check_flag("normalize", normalize)
    how = _how_to_pool(bundle.files.pooling, pooling, normalize)
    rows, session = as_texts(texts), bundle.sessions[roles.MODEL]
    encodings = encode(bundle, [row.lower() for row in rows] if how.lower else rows, truncate, how.max_length)
    width = len(how.dense[-1].weight) if how.dense else session.width(LAST_HIDDEN_STATE)
    vectors = np.empty((len(rows), width), np.float32)
    for places, outputs, mask in run(bundle, encodings, batch_tokens, progress):
        vectors[places] = how.apply(outputs[LAST_HIDDEN_STATE], mask)
    return vectors[0] if isinstance(texts, str) else vectors


def _of_tower(
    bundle: LoadedBundle,
    texts: str | Sequence[str],
    truncate: bool,
    batch_tokens: int,
    progress: Progress | None,
) -> np.ndarray:
    """The vectors of texts that a model compares with those of images."""
    encodings = encode(bundle, as_texts(texts), truncate)
    width = bundle.sessions[roles.TEXT].width(TEXT_EMBEDS)
    vectors = np.empty((len(encodings), width), np.float32)
    for places, outputs, _ in run(bundle, encodings, batch_tokens, progress):
        vectors[places] = outputs[TEXT_EMBEDS]
    return vectors[0] if isinstance(texts, str) else vectors


def _how_to_pool(own: Pooling | None, pooling: str | None, normalize: bool | None) -> Pooling:
    if own is None and pooling is None:
        raise InputError("the checkpoint does not say how to pool; choose pooling, as 'mean' or 'cls'")
    method = check_method(pooling) if pooling is not None else own.method  # type: ignore[union-attr]
    if own is None:
        return Pooling(method, bool(normalize))
    wanted = own.normalize if normalize is None else normalize
    return replace(own, method=method, normalize=wanted)
