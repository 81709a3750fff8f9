"""Audio classification; B sounds, M mel bands, F frames."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import INPUT_FEATURES, INPUT_VALUES, LOGITS
from txexport.errors import UnsupportedError
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.audio import Audio
from txexport.runtime.preprocessing.filter_bank import FilterBank
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.session import Session, finite
from txexport.runtime.tasks.labels import Label, labelled, names, ranked, softmax
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress, counting

BATCH_SOUNDS = 8
SINGLE = (str, Path, np.ndarray)  # one sound, not a list


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
    name, reader = _preprocessing(bundle, session)
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        inputs = {name: reader.features(batch, truncate=truncate)}
        logits[first : first + len(batch)] = finite(session.run(inputs))[LOGITS]
        tell(first + len(batch), len(sources))
    labels = _labels(bundle.files.config, logits, top_k)
    return labels[0] if isinstance(sounds, SINGLE) else labels


def _preprocessing(bundle: LoadedBundle, session: Session) -> tuple[str, Audio | FilterBank]:
    """The input for sounds, and the feature extractor that makes its arrays.

    Whisper's makes (B,M,F) for `input_features`, AST's (B,F,M) for `input_values`; a waveform (B,samples) is
    neither. Raises UnsupportedError for another input or extractor.
    """
    spectrograms = [name for name, port in session.inputs.items() if len(port.shape) == 3]
    if spectrograms == [INPUT_FEATURES]:
        return INPUT_FEATURES, bundle.files.audio
    if spectrograms == [INPUT_VALUES]:
        return INPUT_VALUES, bundle.files.filter_bank
    ports = ", ".join(f"{port.name} ({', '.join(map(str, port.shape))})" for port in session.inputs.values())
    raise UnsupportedError(
        f"the graph reads {ports}, for which there is no feature extractor; expected {INPUT_FEATURES} "
        f"(batch, mel bands, frames) or {INPUT_VALUES} (batch, frames, mel bands); pass arrays to model.run"
    )


def _labels(config: dict[str, Any], logits: np.ndarray, top_k: int | None) -> list[list[Label]]:
    """Labels as for texts, but a single label without a problem_type gets a softmax."""
    if logits.shape[1] != 1 or config.get("problem_type") is not None:
        return labelled(config, logits, top_k)
    return [ranked(names(config, 1), row, top_k) for row in softmax(logits)]
