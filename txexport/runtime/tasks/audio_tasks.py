"""Labels of sounds, turns of speakers, vectors of speakers; B sounds, N samples, S vectors, D numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import ATTENTION_MASK, EMBEDDINGS, LOGITS
from txexport.errors import InputError, UnsupportedError, shown
from txexport.runtime import memory
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.audio import SINGLE, Source
from txexport.runtime.preprocessing.extractors import Extractor
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.session import Session, finite
from txexport.runtime.tasks.labels import Label, labelled, names, ranked, sigmoid, softmax
from txexport.runtime.vectors.pooling import unit
from txexport.support.arguments import check_count, check_flag, is_whole
from txexport.support.progress import Progress, counting

BATCH_SOUNDS = 8
ENCODERS = ("encoder_config", "audio_config")  # of config.json, where the encoder has one of its own


class Turn(TypedDict):
    """A stretch of a sound with a label: its mean probability, and its start and end in seconds."""

    label: str
    score: float
    start: float
    end: float


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

    A sound is the path of a file or an array of floats (N,) between -1 and 1 at the rate of the checkpoint's
    feature extractor. Waveforms are read one at a time: padding would change their numbers. Raises
    InputError for an invalid sound, for a waveform that is too short and, unless `truncate` cuts it, for a
    sound that is longer than the model reads.
    """
    check_task(bundle, "classify_audio")
    check_flag("truncate", truncate)
    check_count("batch_size", batch_size)
    rows = [outputs[LOGITS][0] for outputs in _rows(bundle, sounds, batch_size, truncate, progress)]
    width = bundle.sessions[roles.MODEL].width(LOGITS)
    logits = np.stack(rows) if rows else np.empty((0, width), np.float32)
    labels = _labels(bundle.files.config, logits, top_k)
    return labels[0] if isinstance(sounds, SINGLE) else labels


def diarize(
    bundle: LoadedBundle, sounds: Any, *, threshold: float = 0.5, progress: Progress | None = None
) -> list[Turn] | list[list[Turn]]:
    """The turns of every speaker of a sound, or of each of several, by their beginning.

    A turn is a stretch of vectors, each with a probability of `threshold` or more for the label of the
    speaker; turns of two speakers may overlap. Probabilities are sigmoids of the scores, or the softmax of a
    checkpoint whose problem_type is single_label_classification. Each sound is read whole. Raises InputError
    for an invalid sound or threshold.
    """
    check_task(bundle, "diarize")
    number = isinstance(threshold, float | np.floating)
    if not number or not 0 < threshold < 1:
        raise InputError(f"threshold is {shown(threshold)}, expected a number between 0 and 1")
    config, facts = bundle.files.config, bundle.reader.facts
    chances = softmax if config.get("problem_type") == "single_label_classification" else sigmoid
    seconds = facts.vector_stride * bundle.files.extractor.hop / bundle.files.extractor.rate
    turns = []
    for outputs in _rows(bundle, sounds, 1, False, progress):
        scores = outputs[LOGITS][0].astype(np.float64)  # (S, labels)
        turns.append(turns_of(chances(scores), names(config, scores.shape[1]), seconds, threshold))
    return turns[0] if isinstance(sounds, SINGLE) else turns


def turns_of(
    probabilities: np.ndarray, labels: Sequence[str], seconds: float, threshold: float
) -> list[Turn]:
    """The turns of labels with probabilities (S,K) of vectors that are `seconds` apart."""
    turns = []
    for label, chances in zip(labels, probabilities.T, strict=True):
        steps = np.diff(np.concatenate([[0], chances >= threshold, [0]]).astype(int))
        for start, end in zip(np.flatnonzero(steps > 0), np.flatnonzero(steps < 0), strict=True):
            score = float(chances[start:end].mean())
            turns.append(
                Turn(label=label, score=score, start=float(start * seconds), end=float(end * seconds))
            )
    return sorted(turns, key=lambda turn: (turn["start"], turn["end"]))


def embed_speaker(
    bundle: LoadedBundle, sounds: Any, *, normalize: bool = True, progress: Progress | None = None
) -> np.ndarray:
    """Speaker embeddings, the x-vectors (len(sounds), D) float32, or (D) for one sound.

    With `normalize` they are L2-normalised, so that the product of two is their cosine: the closer to 1, the
    likelier that the speaker is the same. Sounds are read one at a time, since in a batch padding changes the
    vectors of the originals. Raises InputError for an invalid sound, and for one that is too short.
    """
    check_task(bundle, "embed_speaker")
    check_flag("normalize", normalize)
    rows = [outputs[EMBEDDINGS][0] for outputs in _rows(bundle, sounds, 1, False, progress)]
    width = bundle.sessions[roles.MODEL].width(EMBEDDINGS)
    vectors = np.stack(rows) if rows else np.empty((0, width), np.float32)
    vectors = unit(vectors) if normalize else vectors
    return vectors[0] if isinstance(sounds, SINGLE) else vectors


def _rows(
    bundle: LoadedBundle, sounds: Any, batch_size: int, truncate: bool, progress: Progress | None
) -> Iterator[dict[str, np.ndarray]]:
    """The outputs (1,...) of each sound; waveforms are read one at a time."""
    sources: Sequence = [sounds] if isinstance(sounds, SINGLE) else as_list(sounds)
    session, tell = bundle.sessions[roles.MODEL], counting(progress)
    extractor, facts = extractor_of(bundle, session), bundle.reader.facts
    step = 1 if facts.vector_stride else batch_size
    for first in range(0, len(sources), step):
        batch = sources[first : first + step]
        inputs = inputs_of(extractor, session, batch, truncate=truncate)
        check_length(inputs, bundle)
        outputs = finite(session.run(inputs))
        for row in range(len(batch)):
            yield {name: array[row : row + 1] for name, array in outputs.items()}
        tell(first + len(batch), len(sources))


def check_length(inputs: Mapping[str, np.ndarray], bundle: LoadedBundle) -> None:
    """Raise InputError for sounds of any length that are too short, or too long for the machine's memory.

    Attention computes a number for every head and pair of vectors.
    """
    extractor, facts = bundle.files.extractor, bundle.reader.facts
    length, least = inputs[extractor.port].shape[1], facts.least_samples
    unit = "samples" if extractor.hop == 1 else "frames"
    if length < least:
        raise InputError(f"a sound has {length:,} {unit} at {extractor.rate} Hz, expected {least:,} or more")
    if facts.vector_stride:
        bundle.check_vectors(length)
    config = bundle.files.config
    config = next((config[name] for name in ENCODERS if isinstance(config.get(name), dict)), config)
    heads: Any = config.get("num_attention_heads", config.get("encoder_num_attention_heads"))
    if facts.vector_stride and is_whole(heads, 1, 2**16):
        seconds = length * extractor.hop / extractor.rate
        vectors = length // (facts.layer_stride or facts.vector_stride)
        memory.check(f"a sound of {seconds:,.0f} s", 4 * heads * vectors**2)


def extractor_of(bundle: LoadedBundle, session: Session) -> Extractor:
    """The checkpoint's feature extractor. Raises UnsupportedError where a graph reads something else."""
    extractor = bundle.files.extractor
    inputs, ranks = {extractor.port: extractor.rank}, {n: len(p.shape) for n, p in session.inputs.items()}
    if extractor.masked and ATTENTION_MASK in ranks:
        inputs[ATTENTION_MASK] = 2
    if ranks != inputs:
        ports = [f"{port.name} ({', '.join(map(str, port.shape))})" for port in session.inputs.values()]
        raise UnsupportedError(
            f"the graph reads {', '.join(ports)}, and the checkpoint's feature extractor makes "
            f"{extractor.port} of {extractor.rank} dimensions{' and its mask' * (len(inputs) > 1)}; pass "
            "arrays to model.run"
        )
    return extractor


def inputs_of(
    extractor: Extractor, session: Session, sounds: Sequence[Source], truncate: bool | None = None
) -> dict[str, np.ndarray]:
    """The inputs of the graph for sounds: without their mask where it reads none."""
    inputs = extractor.inputs(sounds, truncate=truncate)
    return {name: inputs[name] for name in session.inputs}


def _labels(config: dict[str, Any], logits: np.ndarray, top_k: int | None) -> list[list[Label]]:
    """Labels as for texts, but a single label without a problem_type gets a softmax."""
    if logits.shape[1] != 1 or config.get("problem_type") is not None:
        return labelled(config, logits, top_k)
    return [ranked(names(config, 1), row, top_k) for row in softmax(logits)]
