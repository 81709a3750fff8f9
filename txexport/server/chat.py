"""POST /v1/chat/completions: the answer to a conversation, by the checkpoint's chat template."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from txexport.runtime.generation.prompts import chat_inputs
from txexport.runtime.generation.running_batch import RunningRow
from txexport.runtime.preprocessing.chat import Conversation
from txexport.server.bodies import Schema, read_json, work
from txexport.server.fields import FLAG, GENERATION, MODEL
from txexport.server.generating import (
    MOST,
    Answer,
    GenerationJob,
    Steps,
    choices_shape,
    job_of,
    respond,
    written,
)
from txexport.server.messages import read_messages
from txexport.server.reasoning import EFFORT, with_effort
from txexport.server.refusals import RefusedError, as_json, naming
from txexport.server.served import Limits, Served, find
from txexport.server.tool_calls import Call, CallReader
from txexport.server.tool_choice import CHOICE, bounded, demanded, functions_of, grammar_of

CALLED = "tool_calls"  # the reason why an answer with calls has finished
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": 4096}
FIELDS: dict[str, Schema] = {
    **MODEL,
    "messages": OBJECTS | {"required": True, "description": 'As [{"role": "user", "content": "Hello"}].'},
    "max_tokens": {"type": "integer", "minimum": 1, "description": "By default, all that there is room for."},
    "max_completion_tokens": {"type": "integer", "minimum": 1},
    "logprobs": FLAG,
    "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
    "chat_template_kwargs": {"type": "object", "description": "Values for the chat template."},
    "tools": OBJECTS | {"description": "Functions for the chat template; calls are returned as tool_calls."},
    "tool_choice": CHOICE,
    "parallel_tool_calls": FLAG | {"description": "False for at most one call an answer."},
    "reasoning_effort": EFFORT,
    "response_format": {"type": "object", "description": "text, json_object or json_schema, as OpenAI's."},
    **GENERATION,
}


async def chat_completions(request: Request) -> Response:
    """Answer a request."""
    body, served, images = await chat_body(request, FIELDS)
    job = await work(request, chat_job, served, body, request.app.state.limits, images)
    choices, pieces = partial(_choices, served), partial(_pieces, served)
    shape = choices_shape(
        ("chatcmpl", "chat.completion", "chat.completion.chunk"), served, body, choices, pieces
    )
    return await respond(request, served, body, job, shape)


async def chat_body(request: Request, fields: Mapping[str, Schema]) -> tuple[dict[str, Any], Served, bool]:
    """The fields of a request, its bundle, and whether the server reads media. Raises RefusedError."""
    limits: Limits = request.app.state.limits
    every = request.app.state.served
    images = any(one.model.bundle.reads_media for one in every.values())
    body = await read_json(request, fields, limits.max_body if images else limits.most_text)
    served = find(every, body["model"])
    if served.generation is None or served.model.bundle.is_encoder_decoder:
        raise RefusedError(f"{served.name} does not chat; it is for {', '.join(served.methods)}")
    return body, served, images


def chat_job(served: Served, body: Mapping[str, Any], limits: Limits, images: bool) -> GenerationJob:
    """The job of a request, which may be larger than texts if the server reads `images`.

    Raises RefusedError, and InputError for messages that the template rejects.
    """
    functions, new_tokens = demanded(body), _new_tokens(body)
    tools = body.get("tools") if body.get("tool_choice") != "none" else None
    messages = read_messages(served, body["messages"])
    if images:
        _check_texts({**body, "messages": messages}, limits)
    names = frozenset(one["name"] for one in functions_of(tools or ()))
    values = with_effort(served, {**body, "tools": tools})
    with naming(body, "messages"):
        conversation = Conversation(messages, tools, template_kwargs=values)
        inputs, media = chat_inputs(served.model.bundle, conversation)
    if body.get("top_logprobs") and not body.get("logprobs"):
        raise RefusedError("top_logprobs needs logprobs=true", param="top_logprobs")
    with naming(body):
        constraint = _constraint(body.get("response_format", {}))
    calls, single = served.call_format if tools else None, body.get("parallel_tool_calls") is False
    if functions:
        if constraint:
            raise RefusedError(
                "response_format is not served with a tool_choice that demands a call", param="tool_choice"
            )
        with naming(body):
            constraint = {"grammar": grammar_of(calls, functions, several=_several(body))}
    alternatives = body.get("top_logprobs", 0) if body.get("logprobs") else None
    job = job_of(served, inputs, body, limits, new_tokens=new_tokens, alternatives=alternatives, **constraint)
    request = replace(job.request, media=media)
    return replace(job, request=request, calls=calls, functions=names, single=single)


def _new_tokens(body: Mapping[str, Any]) -> int | None:
    """The most tokens of an answer, under either of the names that OpenAI has given them."""
    values = [body[name] for name in MOST if name in body]
    if len({*values}) > 1:
        raise RefusedError(
            f"max_completion_tokens is {values[0]} and max_tokens is {values[1]}; send one of them",
            param="max_tokens",
        )
    return values[0] if values else None


def _several(body: Mapping[str, Any]) -> bool:
    """Return whether an answer that must be a call may be several: not where one function is named."""
    return body["tool_choice"] == "required" and body.get("parallel_tool_calls", True)


def _check_texts(body: Mapping[str, Any], limits: Limits) -> None:
    """Raise RefusedError if a request without its images and sounds is larger than one without any may be."""
    size = len(json.dumps(body, ensure_ascii=False, default=lambda _: None))
    if size > limits.most_text:
        raise RefusedError(
            f"the request has {size:,} characters without its images and sounds, and this server reads "
            f"{limits.most_text:,}; send fewer",
            413,
        )


def _constraint(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The option of Model.chat for a response_format. Raises RefusedError."""
    kind = wanted.get("type", "text")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"json_schema": {"type": "object"}}
    named = wanted.get("json_schema")
    if kind == "json_schema" and isinstance(named, dict) and isinstance(named.get("schema"), dict):
        return {"json_schema": bounded(named["schema"], "response_format")}
    expected = 'expected "text", "json_object", or "json_schema" with json_schema.schema'
    raise RefusedError(f"response_format is {as_json(wanted)}, {expected}", param="response_format")


def _choices(served: Served, answer: Answer, texts: Sequence[str]) -> list[dict[str, Any]]:
    """The choices of a complete answer."""
    choices = []
    for number, (text, grown) in enumerate(zip(texts, answer.texts, strict=True)):
        logs = log_probs(served, grown.row, 0) if answer.job.alternatives is not None else None
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        reason = grown.finish_reason
        if (reader := reader_of(answer)) is not None:
            parts = [*reader.add(text), *reader.end()]
            calls = [part.entry() for part in parts if isinstance(part, Call)]
            content = "".join(part for part in parts if isinstance(part, str))
            message["content"] = content or (None if calls else "")
            if calls:
                message["tool_calls"] = calls
                reason = _reason(grown.finish_reason, len(calls))
        choices.append({"index": number, "message": message, "logprobs": logs, "finish_reason": reason})
    return choices


def _reason(reason: str | None, calls: int) -> str | None:
    """The reason why an answer has finished, in which there are that number of calls."""
    return CALLED if calls and reason == "stop" else reason


def reader_of(answer: Answer) -> CallReader | None:
    """The reader of calls in a text of the answer, if there are functions that it may call."""
    job = answer.job
    return None if job.calls is None else CallReader(job.calls, job.functions, job.single)


async def _pieces(served: Served, answer: Answer, steps: Steps) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a streamed answer: role, pieces of text, calls of functions, and finish reason."""
    sent, called = [0] * len(answer.texts), [0] * len(answer.texts)
    readers = [reader_of(answer) for _ in answer.texts]
    for number in range(len(answer.texts)):
        yield _delta(number, {"role": "assistant", "content": ""})
    async for step in steps:
        for number, piece in step:
            grown = answer.texts[number]
            logs = None
            if answer.job.alternatives is not None and grown.read > sent[number]:
                logs = log_probs(served, grown.row, sent[number], grown.read)
                sent[number] = grown.read
            parts: list[str | Call] = [piece] if piece else []
            if (reader := readers[number]) is not None:
                parts = [*reader.add(piece), *(reader.end() if grown.finish_reason else ())]
            for part in parts or [""] * bool(logs):
                delta: dict[str, Any] = {"content": part}
                if isinstance(part, Call):
                    delta = {"tool_calls": [{"index": called[number], **part.entry()}]}
                    called[number] += 1
                yield _delta(number, delta, logs=logs)
                logs = None
            if grown.finish_reason:
                yield _delta(number, {}, _reason(grown.finish_reason, called[number]))


def _delta(
    number: int, delta: dict[str, Any], reason: str | None = None, logs: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"index": number, "delta": delta, "logprobs": logs, "finish_reason": reason}


def log_probs(served: Served, row: RunningRow, start: int, end: int | None = None) -> dict[str, Any]:
    """Log-probabilities of a row's tokens from `start` to `end`, in the format of chat completions."""
    tokens, values = row.result.tokens[start:end], row.result.log_probs[start:end]
    likeliest = [[one for one in step if one[1] > -1e9] for step in row.likeliest[start:end]]
    named = written(served, [*tokens, *(number for step in likeliest for number, _ in step)])

    def token(number: int, value: float) -> dict[str, Any]:
        text = named[number]
        return {"token": text, "logprob": value, "bytes": list(text.encode())}

    content = []
    for place, (number, value) in enumerate(zip(tokens, values, strict=True)):
        top = [token(*one) for one in likeliest[place]] if likeliest else []
        content.append(token(number, value) | {"top_logprobs": top})
    return {"content": content, "refusal": None}
