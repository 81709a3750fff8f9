"""POST /v1/audio/transcriptions: the transcript of a WAV file."""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from txexport.runtime.tasks import speech_recognition
from txexport.server.bodies import Schema, fitted, read_bytes, work
from txexport.server.embeddings import needs
from txexport.server.fields import MODEL
from txexport.server.generating import GenerationJob, begin, ended
from txexport.server.refusals import RefusedError, temporary_folder
from txexport.server.served import Limits, Served, find
from txexport.server.streams import answered

FIELDS: dict[str, Schema] = {
    **MODEL,
    "language": {"type": "string", "description": "The spoken language, as fr; detected by default."},
    "response_format": {"enum": ["json", "text"]},
    "temperature": {"enum": ["0", "0.0"], "description": "0: greedy decoding."},
    "task": {"enum": ["transcribe", "translate"]},
}


async def transcriptions(request: Request) -> Response:
    """Answer a request."""
    limits: Limits = request.app.state.limits
    sound, form = await _form(request, limits.max_body)
    body = fitted(form, FIELDS)
    served = find(request.app.state.served, body["model"])
    needs(served, "transcribe")
    if served.generation is None:
        call = served.calls.call(partial(_recognised, served, body), [sound])
        [text] = await answered(request, call)
        return _response(text, body)
    job = await work(request, _job_of, served, sound, body, limits)
    answer = await begin(served, job, False)
    try:
        [text] = await answered(request, answer.whole())
    finally:
        ended(request, answer)
    return _response(text, body)


def _response(text: str, fields: dict[str, Any]) -> Response:
    """The text in the requested format."""
    if fields.get("response_format") == "text":
        return PlainTextResponse(text)
    return JSONResponse({"text": text})


def _recognised(served: Served, fields: dict[str, Any], sounds: list[bytes]) -> Iterator[Any]:
    """The texts of WAV files, of a model that generates none. Raises InputError."""
    options = {name: fields[name] for name in ("language", "task") if name in fields}
    with temporary_folder() as folder:
        path = folder / "file"
        for sound in sounds:
            path.write_bytes(sound)
            yield served.model.transcribe(path, **options)


async def _form(request: Request, most: int) -> tuple[bytes, dict[str, Any]]:
    """The file of a form, and its other fields. Raises RefusedError."""
    body, headers = await read_bytes(request, most), Headers(scope=request.scope)

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        form = await MultiPartParser(headers, stream(), max_files=1, max_fields=20).parse()
    except (MultiPartException, KeyError) as error:
        raise RefusedError(f"the body is not a multipart form: {error}") from None
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise RefusedError("file is missing, expected a WAV file", param="file")
    return await file.read(), {name: value for name, value in form.items() if name != "file"}


def _job_of(served: Served, sound: bytes, body: dict[str, Any], limits: Limits) -> GenerationJob:
    """The job of a request. Raises InputError for an invalid sound, and for one that is too long."""
    options = {name: body[name] for name in ("language", "task") if name in body}
    with temporary_folder() as folder:
        path = folder / "file"
        path.write_bytes(sound)
        features = served.model.audio.features(str(path))
    request = speech_recognition.request(served.model.bundle, list(features), do_sample=False, **options)
    return GenerationJob(replace(request, read=None), 1, None, ())
