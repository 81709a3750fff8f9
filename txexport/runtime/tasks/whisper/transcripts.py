"""Transcripts of sounds of any length with Whisper."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from txexport.contracts.names import INPUT_FEATURES
from txexport.errors import InputError
from txexport.runtime.generation.requests import GenerationRequest, checked
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.audio import SINGLE, read_blocks
from txexport.runtime.preprocessing.extractors.log_mel import Audio
from txexport.runtime.preprocessing.sound_pieces import Layout, layout
from txexport.runtime.tasks.transcript import Segment, Transcript
from txexport.runtime.tasks.whisper.alignment import alignment_of
from txexport.runtime.tasks.whisper.chunks import Chunk, Chunks, Stride
from txexport.runtime.tasks.whisper.decoding import Decoding
from txexport.runtime.tasks.whisper.options import ALL, TranscriptOptions
from txexport.runtime.tasks.whisper.recordings import Prompting, Recording
from txexport.runtime.tasks.whisper.segments import STRIDE, Clock, TokenSegment
from txexport.runtime.tasks.whisper.special_tokens import SpecialTokens
from txexport.runtime.tasks.whisper.words import WITHOUT_SPACES, words_of
from txexport.support.progress import Counting


@dataclass
class _Sound:
    """The recordings of a sound, which is `complete` once all its pieces are read."""

    recordings: list[Recording] = field(default_factory=list)
    complete: bool = False

    @property
    def done(self) -> bool:
        """Return whether all of it is decoded."""
        return self.complete and all(recording.done for recording in self.recordings)


class Transcriber:
    """Transcribes the sounds of a call; `task` and `language` are checked, `request` has no inputs."""

    def __init__(
        self,
        request: GenerationRequest,
        options: TranscriptOptions,
        task: str,
        language: int | None,
    ):
        self.bundle: LoadedBundle = request.bundle
        self.options, self.language = options, language
        self.first_place = request.first_place
        self.special = SpecialTokens(self.bundle.files.folder)
        self.clock = self._clock(request.vocab_size)
        if options.timestamps is not None and self.clock is None:
            raise InputError(
                "timestamps need no_timestamps_token_id in the checkpoint's generation_config.json"
            )
        if options.timestamps == "word":
            alignment_of(self.bundle)
        self.decoding = self._decoding(checked(request), task)
        self.layout = self._layout()

    def _clock(self, vocab_size: int) -> Clock | None:
        extractor, token = self.bundle.files.extractor, self.special.no_timestamps
        if token is None or token + 1 >= vocab_size or not isinstance(extractor, Audio):
            return None
        return Clock(token + 1, STRIDE * extractor.hop / extractor.rate)

    def _decoding(self, request: GenerationRequest, task: str) -> Decoding:
        options, config, limit = self.options, request.config, request.limit
        if config.max_new_tokens is None and config.max_length is not None:  # without the first tokens
            config = replace(config, max_new_tokens=config.max_length, max_length=None)
        prompt = [] if options.prompt is None else self._prompt_ids(options.prompt)
        most = request.vocab_size if limit is None else limit // 2 - 1
        before = self.special.before_history(config.suppress_tokens)
        default = (config.temperature,) if config.do_sample else (0.0,)
        return Decoding(
            request=replace(request, config=config),
            special=self.special,
            task=task,
            frames=int(request.media_inputs[INPUT_FEATURES][1]),
            clock=self.clock,
            prompting=Prompting(prompt, options.prompt_condition_type == ALL, before, most),
            conditioned=options.condition_on_prev_tokens,
            temperatures=tuple(map(float, options.temperatures)) or default,
            thresholds=options.thresholds,
            entropy=np.random.SeedSequence(config.seed).entropy,
            aligned=options.timestamps == "word",
        )

    def _layout(self) -> Layout | None:
        """The layout of overlapping pieces. Raises InputError for pieces longer than the model reads."""
        length, extractor = self.options.chunk_length_s, self.bundle.files.extractor
        if not length:
            return None
        if not isinstance(extractor, Audio):
            raise InputError("chunk_length_s needs a checkpoint with Whisper's feature extractor")
        if length > (longest := extractor.samples / extractor.rate):
            raise InputError(
                f"chunk_length_s is {length:g}, expected at most {longest:g}, which the model reads"
            )
        return layout(length, self.options.stride_length_s, extractor.rate, 1)

    def _prompt_ids(self, prompt: str) -> list[int]:
        return self.special.prompt_ids(prompt, self.bundle.files.text)

    def run(self, sounds: Sequence, batch_tokens: int, tell: Counting) -> list[Transcript]:
        """The transcript of each sound; as many windows at a time as the budget of tokens has room for."""
        opened: dict[int, _Sound] = {}
        transcripts: dict[int, Transcript] = {}
        active: list[Recording] = []
        most, waiting = self.decoding.rows_at_once(batch_tokens), self._recordings(sounds, opened)
        while True:
            while len(active) < most and (following := next(waiting, None)) is not None:
                active.append(following)
            if active:
                self.decoding.step(active)
            active = [recording for recording in active if not recording.done]
            done = [place for place, sound in opened.items() if sound.done]
            for place in done:
                transcripts[place] = self._transcript(opened.pop(place).recordings)
            if done:
                tell(len(transcripts), len(sounds))
            if len(transcripts) == len(sounds):
                return [transcripts[place] for place in range(len(sounds))]

    def parts(self, sound: Any) -> Iterator[Transcript]:
        """The transcript of a sound window by window; words and overlapping pieces are in the last part."""
        if self.layout:
            yield from self.run([sound], 1, lambda *_: None)
            return
        recording = self._opened(0, sound if isinstance(sound, SINGLE) else np.asarray(sound))
        count = 0
        while not recording.done:
            self.decoding.step([recording])
            segments = [self._segment(one) for one in recording.segments[count:] if self._has_text(one)]
            count = len(recording.segments)
            part = Transcript("".join(one.text for one in segments), (), (), self._code(recording))
            timed = self.options.timestamps is not None
            yield replace(part, segments=tuple(segments)) if timed else part
        if self.options.timestamps == "word":
            yield replace(self._transcript([recording]), text="", segments=())

    def _code(self, recording: Recording) -> str | None:
        return self.special.code(recording.language)

    def _recordings(self, sounds: Sequence, opened: dict[int, _Sound]) -> Iterator[Recording]:
        """The recordings of all sounds before their first windows, each put in its sound in `opened`."""
        for place, sound in enumerate(sounds):
            opened[place] = state = _Sound(complete=self.layout is None)
            source = sound if isinstance(sound, SINGLE) else np.asarray(sound)
            for recording in self._pieces(place, source) if self.layout else [self._opened(place, source)]:
                state.recordings.append(recording)
                yield recording
            state.complete = True

    def _pieces(self, place: int, sound: Any) -> Iterator[Recording]:
        """The overlapping pieces of a sound. Raises InputError for a bad sound."""
        extractor = self.bundle.files.extractor
        assert self.layout is not None
        assert isinstance(extractor, Audio)
        for number, piece in enumerate(self.layout.pieces(read_blocks(sound, extractor.rate))):
            sizes = (piece.samples.size, piece.left, piece.right)
            stride = Stride(*(size / extractor.rate for size in sizes))
            features = extractor.spectrogram(piece.samples)
            frames = extractor.frames(piece.samples.size)
            yield self._recording(place, features, frames, number, stride)

    def _opened(self, place: int, sound: Any) -> Recording:
        """A whole sound before its first window. Raises InputError for a bad sound."""
        extractor = self.bundle.files.extractor
        if self.clock is None or not isinstance(extractor, Audio):  # one window
            features = extractor.features(sound)[0]
            return self._recording(place, features, features.shape[1])
        samples = extractor.read(sound)
        return self._recording(place, extractor.spectrogram(samples), extractor.frames(samples.size))

    def _recording(
        self, place: int, features: np.ndarray, frames: int, piece: int = 0, stride: Stride | None = None
    ) -> Recording:
        expected = self.decoding.request.media_inputs[INPUT_FEATURES]
        if features.shape[0] != expected[0]:
            raise InputError(f"a spectrogram has {features.shape[0]} mel bands, expected {expected[0]}")
        timed = self.options.timestamps is not None or features.shape[1] > self.decoding.frames
        if timed and (constraint := self.decoding.request.constraint) is not None:
            raise InputError(
                f"{constraint.name} rules out timestamps, with which sounds longer than a window are read; "
                f"leave {constraint.name} and timestamps out, or cut the sound"
            )
        place, conditioned = self.first_place + place, self.decoding.conditioned
        return Recording(place, features, timed, frames, piece, stride, self.language, conditioned)

    def _transcript(self, recordings: Sequence[Recording]) -> Transcript:
        code = self._code(recordings[0])
        timed, aligned = self.options.timestamps is not None, self.options.timestamps == "word"
        chunks = self._chunks(recordings) if self.layout or aligned else []
        if self.layout:
            segments = [Segment(one.start, one.end, self._decoded(one)) for one in chunks]
        else:
            segments = [self._segment(one) for one in recordings[0].segments if self._has_text(one)]
        text = "".join(segment.text for segment in segments)
        spaced = code not in WITHOUT_SPACES or self.decoding.task != "transcribe"
        timed_words = [
            word for one in chunks for word in words_of(one.tokens, self.bundle.files.text, spaced)
        ]
        return Transcript(text, tuple(segments) if timed else (), tuple(timed_words) if aligned else (), code)

    def _chunks(self, recordings: Sequence[Recording]) -> list[Chunk]:
        """The chunks of a sound that have a text."""
        step = 0.0 if self.clock is None else self.clock.step
        special = self.bundle.files.text.joining.special
        chunks = Chunks(self.clock, special, self.decoding.frames // STRIDE * step)
        for recording in recordings:
            chunks.add(recording.tokens)
        return [chunk for chunk in chunks.finish() if chunk.tokens]

    def _decoded(self, chunk: Chunk) -> str:
        [text] = self.bundle.files.text.decode([[one.token for one in chunk.tokens]])
        return text

    def _has_text(self, segment: TokenSegment) -> bool:
        """Return whether a segment is more than a timestamp that begins one."""
        clock = self.clock
        return clock is None or segment.end is not None or not all(map(clock.is_time, segment.tokens))

    def _segment(self, segment: TokenSegment) -> Segment:
        tokens = segment.tokens
        if segment.start is not None and self.clock is not None:
            tokens = [token for token in tokens if not self.clock.is_time(token)]
        [text] = self.bundle.files.text.decode([tokens])
        facts = None if segment.decoded is None else replace(segment.decoded, tokens=tuple(segment.tokens))
        return Segment(segment.start, segment.end, text, facts)
