"""Audio classification; B sounds, M mel bands, F frames."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import LOGITS
from txexport.errors import UnsupportedError
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.audio import SINGLE
from txexport.runtime.preprocessing.extractors import Extractor
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.session import Session, finite
from txexport.runtime.tasks.labels import Label, labelled, names, ranked, softmax
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress, counting

BATCH_SOUNDS = 8


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
    checkpoint's feature extractor. Raises InputError for an invalid sound and, unless `truncate` cuts it, for
    one that is longer than the model reads.
    """
    check_task(bundle, "classify_audio")
    check_flag("truncate", truncate)
    check_count("batch_size", batch_size)
    sources: Sequence = [sounds] if isinstance(sounds, SINGLE) else as_list(sounds)
    session, tell = bundle.sessions[roles.MODEL], counting(progress)
    logits = np.empty((len(sources), session.width(LOGITS)), np.float32)
    extractor = extractor_of(bundle, session)
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        inputs = {extractor.port: extractor.features(batch, truncate=truncate)}
        logits[first : first + len(batch)] = finite(session.run(inputs))[LOGITS]
        tell(first + len(batch), len(sources))
    labels = _labels(bundle.files.config, logits, top_k)
    return labels[0] if isinstance(sounds, SINGLE) else labels


def extractor_of(bundle: LoadedBundle, session: Session) -> Extractor:
    """The checkpoint's feature extractor. Raises UnsupportedError where a graph reads something else."""
    extractor = bundle.files.extractor
    if {name: len(port.shape) for name, port in session.inputs.items()} != {extractor.port: extractor.rank}:
        ports = [f"{port.name} ({', '.join(map(str, port.shape))})" for port in session.inputs.values()]
        raise UnsupportedError(
            f"the graph reads {', '.join(ports)}, and the checkpoint's feature extractor makes "
            f"{extractor.port} of {extractor.rank} dimensions; pass arrays to model.run"
        )
    return extractor


def _labels(config: dict[str, Any], logits: np.ndarray, top_k: int | None) -> list[list[Label]]:
    """Labels as for texts, but a single label without a problem_type gets a softmax."""
    if logits.shape[1] != 1 or config.get("problem_type") is not None:
        return labelled(config, logits, top_k)
    return [ranked(names(config, 1), row, top_k) for row in softmax(logits)]
