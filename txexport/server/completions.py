"""POST /v1/completions: continuations of prompts, or the outputs of an encoder-decoder."""

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from txexport.runtime.generation.prompts import inputs_of, target_option
from txexport.runtime.generation.running_batch import RunningRow
from txexport.server.bodies import Schema, read_json, work
from txexport.server.fields import GENERATION, MODEL, TEXT
from txexport.server.generating import (
    NEW_TOKENS,
    Answer,
    GenerationJob,
    Steps,
    choices_shape,
    job_of,
    respond,
    written,
)
from txexport.server.refusals import RefusedError, naming
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
        "expected": f"a text, a list of up to {PROMPTS} texts, or token ids",
        "description": "A text or several, or the ids of the model's own tokens.",
    },
    "max_tokens": {"type": "integer", "minimum": 1, "description": f"{NEW_TOKENS} by default."},
    "logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
    "echo": {"type": "boolean", "description": "Put the prompt before the text; not with logprobs."},
    "src_lang": {"type": "string", "description": "Of a translator between many languages, as fr_XX."},
    "tgt_lang": TEXT,
    **GENERATION,
}


async def completions(request: Request) -> Response:
    """Answer a request."""
    limits: Limits = request.app.state.limits
    body = await read_json(request, FIELDS, limits.most_text)
    served = find(request.app.state.served, body["model"])
    if not served.completes:
        raise RefusedError(f"{served.name} does not complete texts; it is for {', '.join(served.methods)}")
    if body.get("echo") and "logprobs" in body:
        raise RefusedError("echo is not served with logprobs; ask without one of them", param="echo")
    job, prompts = await work(request, _job_of, served, body, limits)
    choices, pieces = partial(_choices, served, prompts), partial(_pieces, served, prompts)
    names = ("cmpl", "text_completion", "text_completion")
    shape = choices_shape(names, served, body, choices, pieces)
    return await respond(request, served, body, job, shape)


def _job_of(
    served: Served, body: Mapping[str, Any], limits: Limits
) -> tuple[GenerationJob, Sequence[str] | Sequence[Sequence[int]]]:
    """The job of a request, and the prompts to echo."""
    bundle, prompts = served.model.bundle, body["prompt"]
    if isinstance(prompts, str) or isinstance(prompts[0], int):
        prompts = [prompts]
    inputs: Sequence[Sequence[int]] = prompts
    if isinstance(prompts[0], str):
        with naming(body, "prompt"):
            inputs, _ = inputs_of(bundle, prompts, body.get("src_lang"))
    more = target_option(bundle, body.get("tgt_lang"))
    new_tokens = body.get("max_tokens", NEW_TOKENS)
    alternatives = body.get("logprobs")
    job = job_of(served, inputs, body, limits, new_tokens=new_tokens, alternatives=alternatives, **more)
    return job, prompts if body.get("echo") else []


def _echoed(served: Served, prompts: Sequence, answer: Answer) -> list[str]:
    """The prefix of each text: its prompt if `prompts` are echoed, otherwise nothing."""
    if not prompts:
        return [""] * len(answer.texts)
    texts = prompts if isinstance(prompts[0], str) else served.model.bundle.files.text.decode(prompts)
    return [text for text in texts for _ in range(answer.job.copies)]


def choice(number: int, text: str, reason: str | None, logs: dict[str, Any] | None) -> dict[str, Any]:
    """A text as a choice."""
    return {"index": number, "text": text, "logprobs": logs, "finish_reason": reason}


def _choices(served: Served, prompts: Sequence, answer: Answer, texts: Sequence[str]) -> list[dict[str, Any]]:
    """The choices of a complete answer, each after its echoed prompt."""
    choices = []
    for number, echoed in enumerate(_echoed(served, prompts, answer)):
        grown = answer.texts[number]
        logs = None if answer.job.alternatives is None else log_probs(served, grown.row, slice(None), 0)
        choices.append(choice(number, echoed + texts[number], grown.finish_reason, logs))
    return choices


async def _pieces(
    served: Served, prompts: Sequence, answer: Answer, steps: Steps
) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a streamed answer."""
    for number, text in enumerate(await run_in_threadpool(_echoed, served, prompts, answer)):
        if text:
            yield choice(number, text, None, None)
    sent, offset = [0] * len(answer.texts), [0] * len(answer.texts)
    async for step in steps:
        for number, piece in step:
            grown, logs = answer.texts[number], None
            if answer.job.alternatives is not None and grown.read > sent[number]:
                logs = log_probs(served, grown.row, slice(sent[number], grown.read), offset[number])
                sent[number], offset[number] = grown.read, offset[number] + sum(map(len, logs["tokens"]))
            if piece or logs or grown.finish_reason:
                yield choice(number, piece, grown.finish_reason, logs)


def log_probs(served: Served, row: RunningRow, which: slice, offset: int) -> dict[str, Any]:
    """Log-probabilities of a row's tokens `which`, in the format of completions.

    `offset` is the number of characters before these tokens.
    """
    likeliest = [[one for one in step if one[1] > -1e9] for step in row.likeliest[which]]
    ids = row.result.tokens[which]
    named = written(served, [*ids, *(token for step in likeliest for token, _ in step)])
    tokens = [named[token] for token in ids]
    offsets = list(itertools.accumulate(map(len, tokens), initial=offset))[:-1]
    return {
        "tokens": tokens,
        "token_logprobs": row.result.log_probs[which],
        "top_logprobs": [{named[i]: value for i, value in step} for step in likeliest] or None,
        "text_offset": offsets,
    }
