"""Transcripts in the formats of OpenAI's API."""

import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse, Response

from txexport.runtime.tasks.transcript import Decoded, Segment, Transcript, to_srt, to_vtt
from txexport.server.language_names import LANGUAGES

FRAMES = 100  # a second, in which OpenAI counts `seek`
UNKNOWN = "unknown"  # the language of models that know none


def response(transcript: Transcript, seconds: float, body: Mapping[str, Any], task: str) -> Response:
    """A transcript of a sound of `seconds` in the format that a request asks for."""
    form = body.get("response_format", "json")
    if form == "text":
        return PlainTextResponse(f"{transcript.text}\n")
    if form in ("srt", "vtt"):
        text = to_srt(transcript) if form == "srt" else to_vtt(transcript)
        return PlainTextResponse(text, media_type="text/vtt" if form == "vtt" else "text/plain")
    usage = {"usage": {"type": "duration", "seconds": seconds}}
    if form == "json":
        return JSONResponse({"text": transcript.text} | usage)
    return JSONResponse(verbose(transcript, seconds, granularities(body), task) | usage)


def granularities(body: Mapping[str, Any]) -> Sequence[str]:
    """The times that verbose_json has."""
    return body.get("timestamp_granularities") or ["segment"]


def verbose(transcript: Transcript, seconds: float, wanted: Sequence[str], task: str) -> dict[str, Any]:
    """The fields of verbose_json; the language of a translation is English."""
    code = "en" if task == "translate" else transcript.language
    fields: dict[str, Any] = {
        "task": task,
        "language": UNKNOWN if code is None else LANGUAGES.get(code, code),
        "duration": seconds,
        "text": transcript.text,
    }
    if "segment" in wanted:
        fields["segments"] = [
            _segment(number, segment, seconds) for number, segment in enumerate(transcript.segments)
        ]
    if "word" in wanted:
        fields["words"] = [
            {
                "word": word.text.strip(),
                "start": word.start or 0.0,
                "end": _end(word.end, word.start, seconds),
            }
            for word in transcript.words
        ]
    return fields


def _segment(number: int, segment: Segment, seconds: float) -> dict[str, Any]:
    """A segment; a number that the model does not compute is 0, since clients read numbers."""
    decoded = segment.decoded or Decoded(())
    octets = segment.text.encode()
    return {
        "id": number,
        "seek": int(decoded.seconds * FRAMES),
        "start": segment.start or 0.0,
        "end": _end(segment.end, segment.start, seconds),
        "text": segment.text,
        "tokens": list(decoded.tokens),
        "temperature": decoded.temperature,
        "avg_logprob": decoded.avg_logprob or 0.0,
        "compression_ratio": len(octets) / len(zlib.compress(octets)),
        "no_speech_prob": decoded.no_speech_prob or 0.0,
    }


def _end(end: float | None, start: float | None, seconds: float) -> float:
    """The end of a part; where it is not known, that of the sound."""
    return max(seconds, start or 0.0) if end is None else end


async def events(parts: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    """The events of a streamed transcript, from the pieces of its text."""
    text = ""
    async for piece in parts:
        text += piece
        if piece:
            yield {"type": "transcript.text.delta", "delta": piece}
    yield {"type": "transcript.text.done", "text": text}
