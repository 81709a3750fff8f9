"""Transcripts with times, and their text as lines, SubRip (SRT), WebVTT and JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

Timestamps: TypeAlias = Literal["segment", "word"]

TIMESTAMPS: tuple[Timestamps, ...] = ("segment", "word")
SHOWN = 3.0  # seconds that a subtitle stays where neither its end nor a later start is known


@dataclass(frozen=True)
class Decoded:
    """Facts of a segment's decoding: its token ids, and its window.

    `seconds` is where the window begins. `avg_logprob` is the mean log-probability of the window's tokens,
    `no_speech_prob` the probability that it has no speech; None where they were not computed.
    """

    tokens: tuple[int, ...]
    seconds: float = 0.0
    temperature: float = 0.0
    avg_logprob: float | None = None
    no_speech_prob: float | None = None


@dataclass(frozen=True)
class Segment:
    """A stretch of speech; `start` and `end` are in seconds, None where not known."""

    start: float | None
    end: float | None
    text: str
    decoded: Decoded | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Word:
    """A word; `start` and `end` are in seconds, None where not known."""

    start: float | None
    end: float | None
    text: str


@dataclass(frozen=True)
class Hypothesis:
    """A text of a sound that a search over CTC's outputs ended with.

    `log_prob` is its log-probability, of the alignments that were searched. `score` orders the texts: it is
    `log_prob`, plus the weighted score of the language model where there is one.
    """

    text: str
    score: float
    log_prob: float


@dataclass(frozen=True)
class Transcript:
    """The text of a sound, its segments and words in order, and the language's code where it is known.

    `words` is empty unless the times of words were asked for, and `hypotheses` unless several texts were.
    """

    text: str
    segments: tuple[Segment, ...] = ()
    words: tuple[Word, ...] = ()
    language: str | None = None
    hypotheses: tuple[Hypothesis, ...] = ()


def to_text(transcript: Transcript, by: Timestamps | None = None) -> str:
    """The text; with `by` a line of times and text for each segment, or for each word."""
    if by is None:
        return f"{transcript.text.lstrip()}\n"  # Whisper's begins with a space
    return "".join(timed_line(part) for part in (transcript.words if by == "word" else transcript.segments))


def timed_line(part: Segment | Word) -> str:
    """A line such as [00:00:01.500 --> 00:00:02.000] the text."""
    start, end = ("?" if time is None else _clock(round(time * 1000), ".") for time in (part.start, part.end))
    return f"[{start} --> {end}] {' '.join(part.text.split())}\n"


def to_srt(transcript: Transcript, by: Timestamps = "segment") -> str:
    """A SubRip file with a subtitle for each segment, or for each word."""
    cues = [
        f"{number}\n{_clock(start, ',')} --> {_clock(end, ',')}\n{text}\n"
        for number, (start, end, text) in enumerate(_cues(transcript, by), 1)
    ]
    return "\n".join(cues)


def to_vtt(transcript: Transcript, by: Timestamps = "segment") -> str:
    """A WebVTT file (W3C) with a cue for each segment, or for each word."""
    cues = [
        f"{_clock(start, '.')} --> {_clock(end, '.')}\n{_escaped(text)}\n"
        for start, end, text in _cues(transcript, by)
    ]
    return "\n".join(["WEBVTT\n", *cues])


def to_json(transcript: Transcript) -> str:
    """One line of JSON with the fields of Transcript; times are in seconds, null where not known."""
    return json.dumps(to_fields(transcript))


def to_fields(transcript: Transcript) -> dict[str, Any]:
    """The fields of a Transcript and of its parts, without the facts of decoding, and hypotheses if any."""
    fields = asdict(transcript)
    if not transcript.hypotheses:
        del fields["hypotheses"]
    for segment in fields["segments"]:
        del segment["decoded"]
    return fields


def joined(parts: Iterable[Transcript]) -> Transcript:
    """The transcript of a sound from its parts in order."""
    result = Transcript("")
    texts: list[str] = []
    segments: list[Segment] = []
    timed: list[Word] = []
    for part in parts:
        texts.append(part.text)
        segments += part.segments
        timed += part.words
        result = part
    return replace(result, text="".join(texts), segments=tuple(segments), words=tuple(timed))


def _cues(transcript: Transcript, by: Timestamps) -> Iterator[tuple[int, int, str]]:
    """Start and end in milliseconds, and text, of every subtitle that has a text, in order.

    An unknown start is the end before it; an unknown end is the next known start. WebVTT needs an end after
    the start.
    """
    parts: Sequence[Segment | Word] = transcript.words if by == "word" else transcript.segments
    later: list[float | None] = [None]  # the next known start after each part
    for part in reversed(parts[1:]):
        later.append(later[-1] if part.start is None else part.start)
    before = 0.0
    for part, following in zip(parts, reversed(later), strict=False):
        start = before if part.start is None else part.start
        likely_end = start + SHOWN if following is None else following
        before = max(start, likely_end if part.end is None else part.end)
        if text := " ".join(part.text.split()):  # a blank line would end the subtitle
            first = round(start * 1000)
            yield first, max(first + 1, round(before * 1000)), text


def _clock(milliseconds: int, point: str) -> str:
    """Milliseconds as hours:minutes:seconds and milliseconds."""
    minutes, milliseconds = divmod(milliseconds, 60_000)
    second, thousandths = divmod(milliseconds, 1000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}{point}{thousandths:03d}"


def _escaped(text: str) -> str:
    """Text with the characters that WebVTT reserves as entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
