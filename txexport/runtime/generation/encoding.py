"""The encoder, which runs once for a batch of prompts, and whose output a decoder attends to."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from txexport.contracts.names import ATTENTION_MASK, INPUT_IDS, media_features
from txexport.contracts.stage import MEDIA, TOKENS, Stage
from txexport.errors import InputError
from txexport.runtime.generation.media import Media, features_of
from txexport.runtime.generation.running_cache import joined
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import pad
from txexport.runtime.session import Value

Shapes: TypeAlias = dict[str, tuple[int | str, ...]]


def run_once(
    bundle: LoadedBundle, inputs: Sequence, padding: int, media: Sequence[Media] = ()
) -> dict[str, Value]:
    """Run the stages that run once; returns the step's inputs that come from them, by name.

    `inputs` are rows of token ids, padded with `padding`, with the `media` of each, or images or sounds.
    Sounds that have a mask are read one by one, since padding would change their vectors.
    """
    decodes = bundle.is_encoder_decoder or not bundle.reads_media
    if bundle.step is None or not bundle.once or not decodes:
        return {}
    if not bundle.masks_signals or len(inputs) == 1:
        return _values(bundle, inputs, padding, media)
    cross: dict[str, np.ndarray] = {}
    for row in inputs:
        values = _values(bundle, [row], padding)
        cross = joined(cross, {name: value.numpy() for name, value in values.items()})
    return {name: bundle.decoder.value(array) for name, array in cross.items()}


def _values(
    bundle: LoadedBundle, inputs: Sequence, padding: int, media: Sequence[Media] = ()
) -> dict[str, Value]:
    """As `run_once`, of all rows at once."""
    assert bundle.step is not None
    read = {source for stage in bundle.stages for source in stage.inputs.values()}
    values: dict[str, Value] = {}  # inputs and outputs, as "ROLE.NAME"
    for stage in bundle.once:
        if bundle.reads_media and stage.role == bundle.media_role:
            continue  # media have their vectors
        session = bundle.sessions[stage.role]
        prompts = _prompts(bundle, inputs, padding, stage)
        if bundle.reads_media and (name := media_features(session.inputs)) in session.inputs:
            vectors = features_of(session, [*map(len, inputs)], media)
            values[stage.inputs[name]] = session.value(vectors)
        feeds = {
            name: values[source] if source in values else session.value(prompts[name])
            for name, source in stage.inputs.items()
        }
        wanted = [name for name in session.outputs if f"{stage.role}.{name}" in read]
        outputs = session.run_values(feeds, wanted)
        values |= {f"{stage.role}.{name}": value for name, value in (feeds | dict(outputs)).items()}
    return {name: values[source] for name, source in bundle.step.inputs.items() if source in values}


def _prompts(bundle: LoadedBundle, inputs: Sequence, padding: int, stage: Stage) -> dict[str, np.ndarray]:
    """The inputs of a stage that are the batch's prompts, by name: padded ids and their mask, or media."""
    if stage.reads(TOKENS):
        image = bundle.image_token_id
        fits = padding < stage.facts.vocab_size and padding != image  # a medium's token has its vectors
        ids, mask = pad(list(inputs), padding if fits else int(image == 0))
        return {INPUT_IDS: ids, ATTENTION_MASK: mask}
    ports = bundle.sessions[stage.role].inputs
    media = [name for name, source in stage.inputs.items() if source in MEDIA]
    result = {name: _stacked(inputs, ports[name].shape) for name in media}
    if ATTENTION_MASK in ports:
        result[ATTENTION_MASK] = np.ones(result[media[0]].shape[:2], np.int64)
    return result


def _stacked(rows: Sequence | np.ndarray, shape: Sequence[int | str]) -> np.ndarray:
    """Waveforms, spectrograms or pixels of one shape as a batch. Raises InputError for any other."""
    if len(shape) == 2:
        return np.stack([np.asarray(row) for row in rows])
    what = "pixels are" if len(shape) == 4 else "a spectrogram is"
    try:
        arrays = [np.asarray(row, np.float32) for row in rows]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} not an array of numbers, expected {tuple(shape[1:])}") from None
    for array in arrays:
        if not _fits(array.shape, shape[1:]):
            raise InputError(f"{what} {array.shape}, expected {tuple(shape[1:])}")
    return np.stack(arrays)


def _fits(sizes: Sequence[int], shape: Sequence[int | str]) -> bool:
    """Tell whether an array has the declared sizes; a named one may be any."""
    return len(sizes) == len(shape) and all(
        isinstance(dim, str) or dim == size for dim, size in zip(shape, sizes, strict=True)
    )


def sound_of(row: object, bundle: LoadedBundle) -> np.ndarray:
    """A waveform (samples,) or spectrogram (frames,bands) float32 of a length that the model reads.

    Raises InputError for any other array, and for one of too few or too many samples or frames.
    """
    [shape], least = media_inputs(bundle).values(), bundle.reader.facts.least_samples
    what, axes = ("a waveform", "one axis") if len(shape) == 1 else ("a spectrogram", "(frames, bands)")
    if bundle.flattens_images:
        what, axes = "an image in patches", "(patches, 2 + numbers)"
    try:
        sound = np.asarray(row, np.float32)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} is not an array of numbers, expected {axes}") from None
    if not _fits(sound.shape, shape) or len(sound) < least:
        size = f"{least:,} or more" if len(shape) == 1 else f"({least} or more, {shape[1]})"
        expected = f"one axis of {size}" if len(shape) == 1 else size
        raise InputError(f"{what} is of shape {sound.shape}, expected {expected}")
    bundle.check_vectors(len(sound))
    return sound


def media_inputs(bundle: LoadedBundle) -> Shapes:
    """The inputs of all graphs that take images or sounds, with the shape of a row."""
    return {
        name: tuple(bundle.sessions[stage.role].inputs[name].shape[1:])
        for stage in bundle.stages
        for name, source in stage.inputs.items()
        if source in MEDIA
    }
