"""POST /v1/audio/transcriptions: the transcript of a sound file."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response

from txexport.errors import shown
from txexport.runtime.preprocessing.sound_files import duration
from txexport.runtime.tasks import speech_recognition
from txexport.runtime.tasks.transcript import Transcript, joined
from txexport.server.bodies import Schema, fitted, read_bytes, work
from txexport.server.embeddings import needs
from txexport.server.fields import DEADLINE, FLAG, MODEL, SEVERAL, TEXT
from txexport.server.generating import GenerationJob, begin, ended
from txexport.server.refusals import RefusedError, naming, temporary_folder
from txexport.server.served import Limits, Served, find
from txexport.server.streams import Deadline, Events, answered, while_there
from txexport.server.thread_steps import ThreadSteps
from txexport.server.transcript_answers import events, granularities, response

FORM = "multipart/form-data"
LONGEST = 24 * 3600.0  # seconds of a sound; a small file may be compressed silence of days
TRANSLATIONS: dict[str, Schema] = {
    **MODEL,
    "prompt": {"type": "string", "description": "Text before the transcript, such as names to expect."},
    "response_format": {"enum": ["json", "text", "srt", "verbose_json", "vtt"]},
    "temperature": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "Above 0 tokens are sampled; 0 raises it up to 1 where a text repeats or is unlikely.",
    },
    "chunk_length_s": {"type": "number", "minimum": 0, "description": "Seconds that are read at a time."},
    "num_beams": {"type": "integer", "minimum": 1, "maximum": SEVERAL, "description": "Beam search."},
    "seed": {"type": "integer", "description": "Draw the same tokens each time."},
    **DEADLINE,
}
FIELDS: dict[str, Schema] = {
    **TRANSLATIONS,
    "language": {"type": "string", "description": "As fr or french; detected by default."},
    "timestamp_granularities": {
        "type": "array",
        "items": {"enum": ["segment", "word"]},
        "description": "Times in verbose_json.",
    },
    "stream": FLAG,
    "task": {"enum": ["transcribe", "translate"]},
}
# OpenAI: with a temperature of 0, it is raised until a window's text neither repeats itself nor is unlikely.
# The values are those of Whisper's authors; the ratio is of token ids, as in transformers.
FALLBACK = {
    "temperature": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "compression_ratio_threshold": 1.35,
    "logprob_threshold": -1.0,
    "no_speech_threshold": 0.6,
}
# Limits that nothing passes: they make the model compute the numbers of verbose_json.
MEASURED = {"logprob_threshold": float("-inf"), "no_speech_threshold": float("inf")}


@dataclass(frozen=True)
class Upload:
    """A request: its file, its fields, and the options of `transcribe` that they are."""

    served: Served
    sound: bytes
    body: Mapping[str, Any]
    task: str
    options: dict[str, Any]

    @property
    def is_plain(self) -> bool:
        """Return whether the text of one window will do, which is generated beside other requests."""
        plain = self.body.get("response_format", "json") in ("json", "text")
        return plain and self.served.generation is not None and not self.options.keys() - {"language", "task"}


async def transcriptions(request: Request) -> Response:
    """Answer a request."""
    return await _answer(request, FIELDS, None)


async def translations(request: Request) -> Response:
    """Answer a request for the English translation of speech."""
    return await _answer(request, TRANSLATIONS, "translate")


async def _answer(request: Request, fields: Mapping[str, Schema], task: str | None) -> Response:
    limits: Limits = request.app.state.limits
    sound, form = await _form(request, limits.max_body, fields)
    body = fitted(form, fields)
    served = find(request.app.state.served, body["model"])
    needs(served, "transcribe")
    if task is not None and served.generation is None:
        raise RefusedError(f"{served.name} transcribes and does not translate; use /v1/audio/transcriptions")
    deadline = Deadline(request, body)
    chosen = task or body.get("task") or "transcribe"
    whisper = served.generation is not None and not served.model.bundle.reads_any_length
    upload = Upload(served, sound, body, chosen, _options(body, task, whisper))
    with naming({*body, "file"}):
        seconds, job = await work(request, _opened, upload)
        if job is not None:
            return await _generated(request, upload, job, seconds, deadline)
        return await _transcribed(request, upload, seconds, deadline)


def _options(body: Mapping[str, Any], task: str | None, whisper: bool) -> dict[str, Any]:
    """The options of `transcribe`. Raises RefusedError for fields that do not go together."""
    form = body.get("response_format", "json")
    if "timestamp_granularities" in body and form != "verbose_json":
        raise RefusedError(
            "timestamp_granularities needs response_format verbose_json", param="timestamp_granularities"
        )
    if body.get("stream") and form not in ("json", "text"):
        raise RefusedError(f"stream is not served with response_format {form}", param="stream")
    names = ("language", "prompt", "task", "chunk_length_s", "num_beams", "seed", "temperature")
    options = {name: body[name] for name in names if name in body}
    if task is not None:
        options["task"] = task
    if form in ("srt", "vtt", "verbose_json"):
        word = form == "verbose_json" and "word" in granularities(body)
        options["timestamps"] = "word" if word else "segment"
        options |= MEASURED if whisper and form == "verbose_json" else {}
    return options | FALLBACK if whisper and options.get("temperature") == 0 else options


def _opened(upload: Upload) -> tuple[float, GenerationJob | None]:
    """The seconds of a sound, and of a plain request its job where the sound is read at once.

    Raises InputError for an invalid sound or option.
    """
    served = upload.served
    with temporary_folder() as folder:
        path = folder / "file"
        path.write_bytes(upload.sound)
        seconds = duration(path, LONGEST)
        audio: Any = served.model.audio
        most = seconds if served.model.bundle.reads_any_length else getattr(audio, "samples", 0) / audio.rate
        if not upload.is_plain or seconds > most:
            return seconds, None
        options = upload.options | {"do_sample": False}
        request = speech_recognition.request(served.model.bundle, [path], **options)
        assert request.read is not None
        features = list(request.read([path]))
    return seconds, GenerationJob(replace(request, inputs=features, read=None), 1, None, ())


async def _generated(
    request: Request, upload: Upload, job: GenerationJob, seconds: float, deadline: Deadline
) -> Response:
    """The answer to a request whose window is generated beside those of others."""
    streams = bool(upload.body.get("stream"))
    answer = await begin(upload.served, job, streams)
    with ExitStack() as stack:
        stack.callback(ended, request, answer)
        if streams:
            pieces = (text async for step in answer.steps() for _, text in step)
            return await _streamed(request, pieces, stack, deadline)
        [text] = await answered(request, answer.whole(), deadline)
        return response(Transcript(text), seconds, upload.body, upload.task)


async def _transcribed(request: Request, upload: Upload, seconds: float, deadline: Deadline) -> Response:
    """The answer to a request that the bundle's thread transcribes, part by part."""
    parts = ThreadSteps(upload.served.calls, partial(_parts, upload))
    with ExitStack() as stack:
        stack.callback(parts.cancel)
        if upload.body.get("stream"):
            pieces = (part.text async for part in parts.steps())
            return await _streamed(request, pieces, stack, deadline)
        transcript = joined(await answered(request, parts.all(), deadline))
        return response(transcript, seconds, upload.body, upload.task)


def _parts(upload: Upload) -> Iterator[Transcript]:
    """The parts of a transcript. Raises InputError."""
    with temporary_folder() as folder:
        path = folder / "file"
        path.write_bytes(upload.sound)
        yield from speech_recognition.parts(upload.served.model.bundle, path, **upload.options)


async def _streamed(
    request: Request, pieces: AsyncIterator[str], stack: ExitStack, deadline: Deadline
) -> Response:
    """A stream of events; it begins with the first piece, so that earlier errors have their own status."""
    steps = deadline.until(pieces)
    first = await while_there(request, anext(steps, ""))

    async def joined_steps() -> AsyncIterator[str]:
        yield first
        async for piece in steps:
            yield piece

    return Events(events(joined_steps()), stack.pop_all().close, deadline, request.app.state.paths)


async def _form(request: Request, most: int, fields: Mapping[str, Schema]) -> tuple[bytes, dict[str, Any]]:
    """The file of a form, and its other fields by the types of `fields`. Raises RefusedError."""
    body, headers = await read_bytes(request, most), Headers(scope=request.scope)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        sent = f"the body is {shown(kind, str)}" if kind else "the request has no Content-Type"
        raise RefusedError(f"{sent}, expected {FORM} with the sound's bytes as the field file", param="file")

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        form = await MultiPartParser(headers, stream(), max_files=1, max_fields=20).parse()
    except (MultiPartException, KeyError) as error:
        raise RefusedError(f"the body is not a multipart form: {error}") from None
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise RefusedError("file is missing, expected a sound file", param="file")
    return await file.read(), _values(form, fields)


def _values(form: FormData, fields: Mapping[str, Schema]) -> dict[str, Any]:
    """The fields of a form as the types that they have in JSON; what has no such value stays a text."""
    values: dict[str, Any] = {}
    for key in form.keys() - {"file"}:
        name = key.removesuffix("[]")
        texts = [value if isinstance(value, str) else "" for value in form.getlist(key)]
        kind = fields.get(name, TEXT).get("type", "string")
        values[name] = texts if kind == "array" else _value(texts[-1], kind)
    return values


def _value(text: str, kind: str) -> Any:
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return {"number": float, "integer": int}.get(kind, str)(text)
    except ValueError:
        return text
