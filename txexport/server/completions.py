"""POST /v1/completions: texts that go on from prompts, or of an encoder-decoder answer them."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from txexport.runtime.generation.prompts import inputs_of, target_option
from txexport.runtime.generation.running_batch import RunningRow
from txexport.server.bodies import Schema, read_json
from txexport.server.fields import GENERATION, MODEL, TEXT, include_usage
from txexport.server.generating import NEW_TOKENS, Answer, Asked, asked_of, begin, ended, searched, usage
from txexport.server.refusals import RefusedError, too_late
from txexport.server.served import Limits, Served, find
from txexport.server.streams import Events, while_there

PROMPTS = 128  # of a request
IDS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
FIELDS: dict[str, Schema] = {
    **MODEL,
    "prompt": {
        "anyOf": [
            TEXT,
            {"type": "array", "items": TEXT, "minItems": 1, "maxItems": PROMPTS},
            IDS,
            {"type": "array", "items": IDS, "minItems": 1, "maxItems": PROMPTS},
        ],
        "required": True,
        "description": "A text or several, or the ids of the model's own tokens.",
    },
    "max_tokens": {"type": "integer", "minimum": 1, "description": f"{NEW_TOKENS} unless given."},
    "logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
    "echo": {"type": "boolean", "description": "Put the prompt before the text; not with logprobs."},
    "src_lang": {"type": "string", "description": "Of a translator between many languages, as fr_XX."},
    "tgt_lang": TEXT,
    **GENERATION,
}


async def completions(request: Request) -> Response:
    """Answer a request."""
    limits: Limits = request.app.state.limits
    asked = await read_json(request, FIELDS, limits.max_body)
    served = find(request.app.state.served, asked["model"])
    wants_usage = include_usage(asked)
    if served.generation is None or served.model.bundle.reads_signal:
        raise RefusedError(f"{served.name} completes no texts; it is for {', '.join(served.methods)}")
    if asked.get("echo") and "logprobs" in asked:
        raise RefusedError("echo is not served with logprobs; ask without one of them", param="echo")
    what, prompts = await run_in_threadpool(_asked, served, asked, limits)
    head = {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": served.name,
    }
    before = [prompt for prompt in prompts for _ in range(what.copies)] if asked.get("echo") else None
    if what.request.config.num_beams > 1:
        return await _beams(request, served, what, head, before)
    answer = await begin(served, what, bool(asked.get("stream")))
    if asked.get("stream"):
        return Events(_events(answer, head, before, wants_usage), lambda: ended(request, answer))
    try:
        async with asyncio.timeout(limits.timeout):
            texts = await while_there(request, answer.whole())
    except TimeoutError:
        raise too_late(limits.timeout) from None
    finally:
        ended(request, answer)
    choices = [
        choice(number, (before[number] if before else "") + text, answer.texts[number].finish_reason)
        for number, text in enumerate(texts)
    ]
    if what.alternatives is not None:
        for one, row in zip(choices, answer.generation.rows, strict=True):
            one["logprobs"] = log_probs(served, row, what)
    return JSONResponse(head | {"choices": choices, "usage": answer.usage})


def _asked(served: Served, asked: Mapping[str, Any], limits: Limits) -> tuple[Asked, list[str]]:
    """What to run, and the prompts as texts."""
    bundle, given = served.model.bundle, asked["prompt"]
    if isinstance(given, str) or isinstance(given[0], int):
        given = [given]
    inputs: Sequence[Sequence[int]] = given
    prompts = given
    if isinstance(given[0], str):
        inputs, _ = inputs_of(bundle, given, asked.get("src_lang"))
    elif asked.get("echo"):
        prompts = bundle.files.text.decode(given)
    more = target_option(bundle, asked.get("tgt_lang"))
    new_tokens = asked.get("max_tokens", NEW_TOKENS)
    alternatives = asked.get("logprobs")
    return asked_of(
        served, inputs, asked, limits, new_tokens=new_tokens, alternatives=alternatives, **more
    ), list(prompts)


async def _beams(
    request: Request, served: Served, what: Asked, head: dict[str, Any], before: Sequence[str] | None
) -> Response:
    if what.alternatives is not None:
        raise RefusedError("logprobs is not served with num_beams above 1", param="logprobs")
    texts, made = await while_there(request, searched(served, what))
    choices = [
        choice(number, (before[number] if before else "") + text, "stop") for number, text in enumerate(texts)
    ]
    return JSONResponse(head | {"choices": choices, "usage": usage(what.prompt_tokens, made)})


def choice(number: int, text: str, reason: str | None) -> dict[str, Any]:
    """A text as a choice."""
    return {"index": number, "text": text, "logprobs": None, "finish_reason": reason}


async def _events(
    answer: Answer, head: dict[str, Any], before: Sequence[str] | None, wants_usage: bool
) -> AsyncIterator[dict[str, Any]]:
    """The texts as they grow."""
    for number, text in enumerate(before or ()):
        yield head | {"choices": [choice(number, text, None)]}
    async for step in answer.steps():
        for number, piece in step:
            reason = answer.texts[number].finish_reason
            if piece or reason:
                yield head | {"choices": [choice(number, piece, reason)]}
    if wants_usage:
        yield head | {"choices": [], "usage": answer.usage}


def log_probs(served: Served, row: RunningRow, what: Asked) -> dict[str, Any]:
    """The tokens of a row with their log-probabilities, as OpenAI's completions have them."""
    text = served.model.bundle.files.text
    tokens = [text.decode([[token]], special=True)[0] for token in row.result.tokens]
    offsets, at = [], 0
    for token in tokens:
        offsets.append(at)
        at += len(token)
    likeliest = [
        {text.decode([[token]], special=True)[0]: value for token, value in step if value > -1e9}
        for step in row.likeliest
    ]
    return {
        "tokens": tokens,
        "token_logprobs": row.result.log_probs,
        "top_logprobs": likeliest if what.alternatives else None,
        "text_offset": offsets,
    }
