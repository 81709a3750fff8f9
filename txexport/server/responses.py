"""POST /v1/responses: the answer to a conversation, in the format of OpenAI's Responses API.

Nothing is stored, so each request has the whole conversation in its input.
"""

import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from txexport.server.bodies import Schema, fitted, work
from txexport.server.chat import FIELDS as CHAT_FIELDS
from txexport.server.chat import OBJECTS, chat_body, chat_job, reader_of
from txexport.server.fields import FLAG, TEXT
from txexport.server.generating import Answer, GenerationJob, Shape, Steps, respond
from txexport.server.refusals import RefusedError, refusal_of
from txexport.server.response_input import chat_fields, named_as_here
from txexport.server.response_output import Object, Output
from txexport.server.served import Limits, Served
from txexport.server.tool_calls import Call

# Sampling and the options of Model.chat, as in chat completions.
SAME = (
    *("seed", "stop", "presence_penalty", "frequency_penalty", "logit_bias", "top_k", "min_p", "typical_p"),
    *("repetition_penalty", "no_repeat_ngram_size", "min_new_tokens", "num_beams", "length_penalty"),
    *("early_stopping",),
)
NO_EFFECT = ("user", "metadata", "safety_identifier", "prompt_cache_key", "store", "service_tier")
STATE = ("previous_response_id", "conversation")  # what a server would have to keep
STATELESS: Schema = {
    "anyOf": [TEXT, {"type": "object"}],
    "description": "Refused, because nothing is stored; send the conversation in input.",
}
FIELDS: dict[str, Schema] = {
    "model": CHAT_FIELDS["model"],
    "input": {
        "anyOf": [{"type": "string", "minLength": 1}, OBJECTS],
        "required": True,
        "description": "A text, or messages, calls of functions and their outputs.",
    },
    "instructions": TEXT | {"description": "The system message before the input."},
    "max_output_tokens": CHAT_FIELDS["max_tokens"],
    "text": {"type": "object", "description": 'As {"format": {"type": "json_schema", "schema": {...}}}.'},
    "tools": OBJECTS | {"description": 'Functions, as {"type": "function", "name": "f", "parameters": {}}.'},
    "tool_choice": CHAT_FIELDS["tool_choice"] | {"description": 'Or {"type": "function", "name": "f"}.'},
    "parallel_tool_calls": CHAT_FIELDS["parallel_tool_calls"],
    "reasoning": {"type": "object", "description": 'As {"effort": "low"}; see reasoning_effort of chat.'},
    "temperature": CHAT_FIELDS["temperature"],
    "top_p": CHAT_FIELDS["top_p"],
    "stream": FLAG,
    "stream_options": {"type": "object", "description": 'As {"include_obfuscation": false}, without effect.'},
    "include": {"type": "array", "items": {"enum": ["reasoning.encrypted_content"]}},
    "truncation": {"enum": ["disabled"]},
    "background": {"enum": [False]},
    **{name: CHAT_FIELDS[name] for name in (*NO_EFFECT, *SAME, "chat_template_kwargs", "timeout")},
    **dict.fromkeys(STATE, STATELESS),
}


async def responses(request: Request) -> Response:
    """Answer a request."""
    body, served, images = await chat_body(request, FIELDS)
    job = await work(request, _job_of, served, body, request.app.state.limits, images)
    head = _head(served, body)
    shape = Shape(partial(_complete, head), partial(_events, head, request.app.state.paths), named=True)
    return await respond(request, served, body, job, shape)


def _job_of(served: Served, body: Mapping[str, Any], limits: Limits, images: bool) -> GenerationJob:
    """The job of a request. Raises RefusedError, and InputError for messages that the template rejects."""
    for name in STATE:
        if name in body:
            raise RefusedError(
                f"the server stores nothing, so {name} cannot be read; send the whole conversation in input",
                param=name,
            )
    try:
        fields = fitted(chat_fields(body, SAME), CHAT_FIELDS)
        return chat_job(served, fields, limits, images)
    except RefusedError as error:
        raise named_as_here(error) from None


def _head(served: Served, body: Mapping[str, Any]) -> Object:
    """A response before its first token."""
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata", {}),
        "model": served.name,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": body.get("reasoning", {}).get("effort"), "summary": None},
        "store": False,
        "temperature": body.get("temperature"),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": body.get("top_p"),
        "truncation": "disabled",
        "usage": None,
    }


def _complete(head: Object, answer: Answer, texts: Sequence[str]) -> Object:
    """A complete response."""
    output, reader = Output(), reader_of(answer)
    parts: list[str | Call] = [texts[0]]
    if reader is not None:
        parts = [*reader.add(texts[0]), *reader.end()]
    for part in parts:
        if part:
            list(output.add(part))
    return _ended(head, answer, output)[-1]["response"]


def _ended(head: Object, answer: Answer, output: Output) -> list[Object]:
    """The last events of a response."""
    is_cut = answer.texts[0].finish_reason == "length"
    status = "incomplete" if is_cut else "completed"
    events = list(output.end(status))
    details = {"reason": "max_output_tokens"} if is_cut else None
    ends = {"status": status, "incomplete_details": details, "usage": _usage(answer)}
    response = head | {"output": output.items, **ends}
    return [*events, {"type": f"response.{status}", "response": response}]


def _usage(answer: Answer) -> Object:
    """The tokens of an answer. Those of reasoning are not counted on their own."""
    counts = answer.usage
    return {
        "input_tokens": counts["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": counts["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counts["total_tokens"],
    }


async def _events(
    head: Object, paths: Mapping[Path, str], answer: Answer, steps: Steps
) -> AsyncIterator[Object]:
    """The events of a streamed response, numbered. An error is the event response.failed."""
    number = 0
    try:
        async for event in _growing(head, answer, steps):
            yield event | {"sequence_number": number}
            number += 1
    except Exception as error:  # the answer has begun, so its status cannot change
        refusal = refusal_of(error, paths)
        code = "server_error" if refusal.status >= 500 else "invalid_prompt"
        failed = head | {"status": "failed", "error": {"code": code, "message": str(refusal)}}
        yield {"type": "response.failed", "response": failed, "sequence_number": number}


async def _growing(head: Object, answer: Answer, steps: Steps) -> AsyncIterator[Object]:
    output, reader = Output(), reader_of(answer)
    for name in ("created", "in_progress"):
        yield {"type": f"response.{name}", "response": head}
    async for step in steps:
        for _, piece in step:
            ends = answer.texts[0].finish_reason is not None
            parts: list[str | Call] = [piece]
            if reader is not None:
                parts = [*reader.add(piece), *(reader.end() if ends else ())]
            for part in parts:
                for event in output.add(part) if part else ():
                    yield event
    for event in _ended(head, answer, output):
        yield event
