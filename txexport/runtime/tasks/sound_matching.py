"""Vectors of sounds, and the texts that describe them; W width."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import AUDIO_EMBEDS
from txexport.runtime.batches import BATCH_TOKENS
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.audio import SINGLE
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.session import finite
from txexport.runtime.tasks.audio_tasks import BATCH_SOUNDS, extractor_of, inputs_of
from txexport.runtime.tasks.labels import Label
from txexport.runtime.tasks.matching import matcher
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress, counting


def embed_audio(
    bundle: LoadedBundle,
    sounds: Any,
    *,
    truncate: bool = False,
    batch_size: int = BATCH_SOUNDS,
    progress: Progress | None = None,
) -> np.ndarray:
    """Vectors of sounds (len(sounds), W) float32, or (W) for one sound.

    They are the L2-normalised vectors that `match_audio` compares with those of `embed`: the product of two
    is their cosine. Sounds are those of `classify_audio`. Raises InputError for an invalid sound and, unless
    `truncate` cuts it, for one that is longer than the model reads.
    """
    check_task(bundle, "embed_audio")
    width = bundle.sessions[roles.AUDIO].width(AUDIO_EMBEDS)
    rows = _vectors(bundle, sounds, truncate, batch_size, progress)
    vectors = np.concatenate([np.empty((0, width), np.float32), *rows])
    return vectors[0] if isinstance(sounds, SINGLE) else vectors


def match_audio(
    bundle: LoadedBundle,
    sounds: Any,
    texts: Sequence[str],
    *,
    template: str = "{}",
    truncate: bool = False,
    batch_size: int = BATCH_SOUNDS,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """The probability that each of `texts` describes a sound, the highest first (Wu et al. 2023, 3).

    Probabilities sum to 1 over the texts. The model reads `template` with a text in place of {}, as in "this
    is a sound of {}.". `truncate` cuts sounds and texts that are too long. Raises InputError for no texts,
    and for a template without {}.
    """
    check_task(bundle, "match_audio")
    check_flag("truncate", truncate)
    matched = matcher(bundle, texts, template, truncate, batch_tokens)
    results: list[list[Label]] = []
    for vectors in _vectors(bundle, sounds, truncate, batch_size, progress):
        results += matched(vectors)
    return results[0] if isinstance(sounds, SINGLE) else results


def _vectors(
    bundle: LoadedBundle, sounds: Any, truncate: bool, batch_size: int, progress: Progress | None
) -> Iterator[np.ndarray]:
    """The vectors (B,W) of each batch of sounds."""
    check_flag("truncate", truncate)
    check_count("batch_size", batch_size)
    sources: Sequence = [sounds] if isinstance(sounds, SINGLE) else as_list(sounds)
    session, tell = bundle.sessions[roles.AUDIO], counting(progress)
    extractor = extractor_of(bundle, session)
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        yield finite(session.run(inputs_of(extractor, session, batch, truncate=truncate)))[AUDIO_EMBEDS]
        tell(first + len(batch), len(sources))
