"""What bundles that hear are for: sounds in, labels out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import INPUT_FEATURES, INPUT_VALUES, LOGITS
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.session import finite
from txexport.runtime.tasks.labels import Label, labelled, names, ranked, softmax
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress, counting

BATCH_SOUNDS = 8
SINGLE = (str, Path, np.ndarray)  # what is one sound, and no list of them


def classify_audio(
    bundle: LoadedBundle,
    sounds: Any,
    *,
    top_k: int | None = 5,
    truncate: bool = False,
    batch_size: int = BATCH_SOUNDS,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """The `top_k` likeliest labels of a sound, likeliest first, or of each of several.

    A sound is the path of a WAV file or an array of floats (N,) between -1 and 1 at the rate of the
    checkpoint's feature extractor. Raises InputError for what is none, and unless `truncate` cuts it, for
    one that is longer than the model reads.
    """
    check_task(bundle, "classify_audio")
    check_flag("truncate", truncate)
    check_count("batch_size", batch_size)
    sources: Sequence = [sounds] if isinstance(sounds, SINGLE) else as_list(sounds)
    session, tell = bundle.sessions[roles.MODEL], counting(progress)
    logits = np.empty((len(sources), session.width(LOGITS)), np.float32)
    log_mel = INPUT_FEATURES in session.inputs  # as Whisper hears, or else AST
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        reader = bundle.files.audio if log_mel else bundle.files.filter_bank
        features = {INPUT_FEATURES if log_mel else INPUT_VALUES: reader.features(batch, truncate=truncate)}
        logits[first : first + len(batch)] = finite(session.run(features))[LOGITS]
        tell(first + len(batch), len(sources))
    labels = _labels(bundle.files.config, logits, top_k)
    return labels[0] if isinstance(sounds, SINGLE) else labels


def _labels(config: dict[str, Any], logits: np.ndarray, top_k: int | None) -> list[list[Label]]:
    """As of texts, but that a label alone excludes others too where the checkpoint says nothing."""
    if logits.shape[1] != 1 or config.get("problem_type") is not None:
        return labelled(config, logits, top_k)
    return [ranked(names(config, 1), row, top_k) for row in softmax(logits)]
