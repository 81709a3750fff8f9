"""Speech recognition by connectionist temporal classification (Graves et al. 2006)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import LOGITS
from txexport.errors import BundleError, InputError, shown
from txexport.runtime.generation.options import RULES
from txexport.runtime.generation.requests import OBJECTS
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.audio import SINGLE, Source, read_blocks
from txexport.runtime.preprocessing.extractors import Extractor
from txexport.runtime.preprocessing.sound_pieces import Layout, Piece, check_piece, layout
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.session import finite
from txexport.runtime.tasks import ctc_decoding
from txexport.runtime.tasks.audio_tasks import check_length, extractor_of, inputs_of
from txexport.runtime.tasks.ctc_decoding import Decoding, beam_options
from txexport.runtime.tasks.transcript import TIMESTAMPS, Timestamps, Transcript, joined
from txexport.runtime.tasks.whisper.options import NAMES
from txexport.support.progress import Progress, counting

LONGEST = 30.0  # seconds that are read at once by default: attention's memory grows with the square
OPTIONS = ("timestamps", "chunk_length_s", "stride_length_s")
OF_GENERATION = ("language", "task", "logits_processor", *OBJECTS, *RULES, *NAMES)  # of other recognisers


def transcribe(
    bundle: LoadedBundle,
    sounds: Any,
    *,
    timestamps: Timestamps | None = None,
    chunk_length_s: float | None = None,
    stride_length_s: float | tuple[float, float] | None = None,
    progress: Progress | None = None,
    **others: Any,
) -> str | Transcript | list[str] | list[Transcript]:
    """The text of a sound, or of each of several; `others` are those of `BeamOptions`.

    With `timestamps` it is a Transcript with the times of segments, or of segments and words. A word lasts
    from the first vector of its first letter to the last of its last. A segment ends at a pause of 0.5 s, and
    before a word that would make it longer than 7 s or 84 characters.

    Each sound is read alone: without a mask, padding would change its text. It is read in pieces of
    `chunk_length_s` seconds; `stride_length_s` seconds on each side, by default a sixth, are context whose
    text is not used. By default, sounds up to 30 s are read whole, and longer ones in pieces of 30 s; with 0,
    all are read whole. Raises InputError for an invalid sound, and for one that is too short.
    """
    check_options(timestamps, others)
    decoding = Decoding(bundle, beam_options(others, timestamps))
    recogniser = Recogniser(bundle, decoding, chunk_length_s, stride_length_s)
    sources: Sequence = [sounds] if isinstance(sounds, SINGLE) else as_list(sounds)
    tell = counting(progress)
    results: list[Any] = []
    for source in sources:
        transcript = fitted(joined(recogniser.parts(source)), timestamps)
        results.append(transcript.text if timestamps is None else transcript)
        tell(len(results), len(sources))
    return results[0] if isinstance(sounds, SINGLE) else results


def parts(
    bundle: LoadedBundle,
    sound: Source,
    *,
    timestamps: Timestamps | None = None,
    chunk_length_s: float | None = None,
    stride_length_s: float | tuple[float, float] | None = None,
    **others: Any,
) -> Iterator[Transcript]:
    """The transcript of a sound in parts: what each piece of the sound completes, before the next is read.

    Options and errors as `transcribe`.
    """
    check_options(timestamps, others)
    decoding = Decoding(bundle, beam_options(others, timestamps))
    return Recogniser(bundle, decoding, chunk_length_s, stride_length_s).parts(sound)


def check_options(timestamps: Any, others: Mapping[str, Any]) -> None:
    """Raise InputError for invalid timestamps, and for options that CTC models do not have."""
    known = (*OPTIONS, *ctc_decoding.NAMES)
    for name in [name for name in others if name not in known]:
        if name not in OF_GENERATION:
            raise InputError(f"there is no option {name}; expected one of {', '.join(known)}")
        raise InputError(f"{name} is an option of models that generate text; leave it out")
    if timestamps not in (None, *TIMESTAMPS):
        raise InputError(f"timestamps is {shown(timestamps)}, expected {' or '.join(TIMESTAMPS)}")


def fitted(transcript: Transcript, timestamps: Timestamps | None) -> Transcript:
    """A transcript with the times that were asked for."""
    return transcript if timestamps == "word" else replace(transcript, words=())


class Recogniser:
    """The model of a bundle, its extractor, and how its outputs are decoded."""

    def __init__(self, bundle: LoadedBundle, decoding: Decoding, length: float | None, stride: Any):
        self.bundle, self.session, self.decoding = bundle, bundle.sessions[roles.MODEL], decoding
        self.extractor = extractor_of(bundle, self.session)
        self.facts = bundle.reader.facts
        self.step = _samples_per_vector(bundle, self.extractor)
        self.layout: Layout | None = None
        check_piece(length)
        if length == 0 and stride is not None:
            raise InputError("stride_length_s needs chunk_length_s above 0, the length of the pieces")
        if length != 0:
            seconds = LONGEST if length is None else length
            self.layout = layout(seconds, stride, self.extractor.rate, self.step)

    def parts(self, source: Source) -> Iterator[Transcript]:
        """The transcript of a sound, in parts that its pieces complete."""
        decoder = self.decoding.decoder((self.step, self.extractor.rate))
        for number, piece in enumerate(self._pieces(source)):
            if number and piece.samples.size < max(self.facts.least_samples, self.extractor.least):
                break  # the last samples of a long sound, too few for a vector
            inputs = inputs_of(self.extractor, self.session, [piece.samples])
            check_length(inputs, self.bundle)
            logits = finite(self.session.run(inputs))[LOGITS][0]  # (S, V)
            yield decoder.add(piece.inner(logits, self.step).astype(np.float64))
        yield decoder.finish()

    def _pieces(self, source: Source) -> Iterator[Piece]:
        blocks = read_blocks(source, self.extractor.rate)
        if self.layout is None:
            return iter([Piece(np.concatenate([*blocks]), 0, 0, last=True)])
        return self.layout.pieces(blocks)


def _samples_per_vector(bundle: LoadedBundle, extractor: Extractor) -> int:
    """The samples between a vector and the next, inputs_to_logits_ratio in transformers."""
    stride = bundle.reader.facts.vector_stride
    if not stride:
        raise BundleError("txexport.json: vector_stride is missing; export the checkpoint again")
    return stride * extractor.hop
