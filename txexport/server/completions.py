"""POST /v1/completions: texts that go on from prompts, or of an encoder-decoder answer them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from txexport.runtime.generation.prompts import inputs_of, target_option
from txexport.runtime.generation.running_batch import RunningRow
from txexport.server.bodies import Schema, read_json
from txexport.server.fields import GENERATION, MODEL, TEXT
from txexport.server.generating import NEW_TOKENS, Answer, Asked, Shape, Steps, asked_of, respond
from txexport.server.refusals import RefusedError
from txexport.server.served import Limits, Served, find

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
    if served.generation is None or served.model.bundle.reads_signal:
        raise RefusedError(f"{served.name} completes no texts; it is for {', '.join(served.methods)}")
    if asked.get("echo") and "logprobs" in asked:
        raise RefusedError("echo is not served with logprobs; ask without one of them", param="echo")
    what, prompts = await run_in_threadpool(_asked, served, asked, limits)
    echoed = [prompt if asked.get("echo") else "" for prompt in prompts for _ in range(what.copies)]
    shape = Shape(
        "cmpl",
        "text_completion",
        "text_completion",
        partial(_choices, served, echoed),
        partial(_pieces, echoed),
    )
    return await respond(request, served, asked, what, shape)


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


def choice(number: int, text: str, reason: str | None) -> dict[str, Any]:
    """A text as a choice."""
    return {"index": number, "text": text, "logprobs": None, "finish_reason": reason}


def _choices(
    served: Served, echoed: Sequence[str], answer: Answer, texts: Sequence[str]
) -> list[dict[str, Any]]:
    """The texts when they are whole, each behind what is echoed."""
    choices = [
        choice(number, echoed[number] + text, answer.texts[number].finish_reason)
        for number, text in enumerate(texts)
    ]
    if answer.asked.alternatives is not None:
        for one, row in zip(choices, answer.generation.rows, strict=True):
            one["logprobs"] = log_probs(served, row, answer.asked)
    return choices


async def _pieces(echoed: Sequence[str], answer: Answer, steps: Steps) -> AsyncIterator[dict[str, Any]]:
    """The texts as they grow."""
    for number, text in enumerate(echoed):
        if text:
            yield choice(number, text, None)
    async for step in steps:
        for number, piece in step:
            reason = answer.texts[number].finish_reason
            if piece or reason:
                yield choice(number, piece, reason)


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
