"""Generation for completions and chat: running rows, growing texts, and token usage."""

import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from txexport.runtime.generation import scheduler
from txexport.runtime.generation.requests import GenerationRequest, request_of
from txexport.runtime.generation.running_batch import RunningRow, rows_of
from txexport.runtime.generation.search import Generated
from txexport.server.fields import include_usage, options_of
from txexport.server.refusals import RefusedError, naming
from txexport.server.served import Limits, Served
from txexport.server.streams import Deadline, Events, answered, while_there
from txexport.server.texts import RowText
from txexport.server.tool_calls import CallFormat
from txexport.server.workers import Generation

NEW_TOKENS = 16  # the default of completions, as OpenAI's
MOST = ("max_completion_tokens", "max_tokens")
PROMPTS = ("prompt", "messages", "input")  # the fields of what is answered
Steps: TypeAlias = AsyncIterator[list[tuple[int, str]]]  # pieces of texts with their numbers


@dataclass(frozen=True)
class GenerationJob:
    """A generation job: its request, the copies of each row, and the log-probabilities to return."""

    request: GenerationRequest
    copies: int
    alternatives: int | None  # None without log-probabilities
    stops: Sequence[str]
    calls: CallFormat | None = None  # of functions that the request has
    functions: frozenset[str] = frozenset()  # their names
    single: bool = False  # at most one call

    @property
    def prompt_tokens(self) -> int:
        """The number of tokens of all prompts."""
        return sum(len(row) for row in self.request.inputs)


def job_of(
    served: Served,
    inputs: Sequence[Sequence[int]],
    body: Mapping[str, Any],
    limits: Limits,
    *,
    new_tokens: int | None,
    alternatives: int | None = None,
    **more: Any,
) -> GenerationJob:
    """The job for rows of token ids; `new_tokens` is None for as many as there is room for.

    Raises RefusedError and InputError for invalid options.
    """
    bundle = served.model.bundle
    options = options_of(body, bundle.files.generation_config.do_sample) | more
    if new_tokens is not None and new_tokens > limits.max_new_tokens:
        name = next((one for one in MOST if one in body), MOST[-1])
        most = limits.max_new_tokens
        raise RefusedError(f"{name} is {new_tokens}, and this server gives at most {most}", param=name)
    strict = new_tokens is not None
    options |= {"max_new_tokens": new_tokens or limits.max_new_tokens, "max_length": None}
    with naming(body):
        request = request_of(bundle, inputs, None, options)
    request = replace(request, strict=strict, stops_in_prompts=False)
    if alternatives is not None and request.config.num_beams > 1:
        raise RefusedError("logprobs is not served with num_beams above 1", param="logprobs")
    if 1 < request.config.num_beams < body.get("n", 1):
        most = request.config.num_beams
        raise RefusedError(f"n is {body['n']}, and {most} beams give at most {most} texts", param="n")
    request = replace(request, log_probs=alternatives is not None)
    stops = tuple(request.config.stop_strings)
    return GenerationJob(request, body.get("n", 1), alternatives, stops)


def start(served: Served, job: GenerationJob) -> list[RunningRow]:
    """The rows of a job, `copies` of each prompt in turn. Raises InputError."""
    config = replace(job.request.config, num_return_sequences=job.copies)
    return rows_of(replace(job.request, config=config), job.alternatives or 0)


class Answer:
    """The texts of a job while its rows run."""

    def __init__(self, served: Served, job: GenerationJob, generation: Generation):
        self.job, self.generation = job, generation
        text = served.model.bundle.files.text
        marks = None if job.calls is None else job.calls.marks
        self.texts = [RowText(text, row, job.stops, marks) for row in generation.rows]

    async def steps(self) -> Steps:
        """Yield the new pieces, each with its row's index. Raises the error of a row that failed."""
        while True:
            await self.generation.grown.wait()
            self.generation.grown.clear()
            done = self.generation.done
            self._check()
            yield [(number, text.more()) for number, text in enumerate(self.texts) if not text.ended]
            if done and all(text.ended for text in self.texts):
                return

    async def whole(self) -> list[str]:
        """The texts when all rows are done. Raises the error of a row that failed."""
        while not self.generation.done:
            await self.generation.grown.wait()
            self.generation.grown.clear()
        self._check()
        return await run_in_threadpool(lambda: [text.more() for text in self.texts])

    def _check(self) -> None:
        for row in self.generation.rows:
            if row.error is not None:
                raise row.error

    @property
    def usage(self) -> dict[str, int]:
        """The tokens read and generated, as OpenAI counts them."""
        generated = sum(len(row.result.tokens) for row in self.generation.rows)
        return usage(self.job.prompt_tokens, generated)


def written(served: Served, tokens: Iterable[int]) -> dict[int, str]:
    """The text of each distinct token, by its id."""
    distinct = list(dict.fromkeys(tokens))
    texts = served.model.bundle.files.text.decode([[token] for token in distinct], special=True)
    return dict(zip(distinct, texts, strict=True))


def usage(read: int, made: int) -> dict[str, int]:
    """Token usage in OpenAI's format."""
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}


async def begin(served: Served, job: GenerationJob, streams: bool) -> Answer:
    """Start the rows. Raises RefusedError where too many requests wait, InputError for invalid ones."""
    rows = await run_in_threadpool(start, served, job)
    assert served.generation is not None
    return Answer(served, job, served.generation.start(rows, streams))


def ended(request: Request, answer: Answer) -> None:
    """Cancel the rows that still run, and record the token usage."""
    answer.generation.cancel()
    request.state.usage = answer.usage


async def searched(served: Served, job: GenerationJob, batch_tokens: int) -> Answer:
    """The texts of beam search, which runs in batches of its own."""
    config = replace(job.request.config, num_return_sequences=job.copies)
    request = replace(job.request, config=config)
    [results] = await served.calls.call(lambda _: [scheduler.finished(request, batch_tokens)], [None])
    rows = [RunningRow(request, 0, result=one, done=True, closed=_closed(request, one)) for one in results]
    generation = Generation(rows, False)
    generation.grown.set()
    return Answer(served, job, generation)


def _closed(request: GenerationRequest, result: Generated) -> bool:
    """Return whether a text ended with an end-of-sequence token, and not at its limit."""
    return bool(result.tokens) and result.tokens[-1] in request.config.eos_token_id


@dataclass(frozen=True)
class Shape:
    """The format of an endpoint's answers: complete, and as a stream of events."""

    complete: Callable[[Answer, Sequence[str]], dict[str, Any]]
    events: Callable[[Answer, Steps], AsyncIterator[dict[str, Any]]]
    named: bool = False  # events have their type as name, and no final event


def choices_shape(
    names: tuple[str, str, str],
    served: Served,
    body: Mapping[str, Any],
    choices: Callable[[Answer, Sequence[str]], list[dict[str, Any]]],
    pieces: Callable[[Answer, Steps], AsyncIterator[dict[str, Any]]],
) -> Shape:
    """The format of completions; `names` are the prefix of ids, and the names of both kinds of objects.

    `pieces` yields a choice for each new piece. Raises RefusedError for invalid stream_options.
    """
    prefix, name, event = names
    head = {"id": f"{prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": served.name}
    wants_usage = include_usage(body)

    def complete(answer: Answer, texts: Sequence[str]) -> dict[str, Any]:
        return head | {"object": name, "choices": choices(answer, texts), "usage": answer.usage}

    async def events(answer: Answer, steps: Steps) -> AsyncIterator[dict[str, Any]]:
        async for choice in pieces(answer, steps):
            yield {**head, "object": event, "choices": [choice]}
        if wants_usage:
            yield {**head, "object": event, "choices": [], "usage": answer.usage}

    return Shape(complete, events)


async def respond(
    request: Request, served: Served, body: Mapping[str, Any], job: GenerationJob, shape: Shape
) -> Response:
    """Answer completely, or as a stream.

    A stream begins when its first tokens are there, so that earlier errors have their own status.
    """
    deadline, streams = Deadline(request, body), bool(body.get("stream"))
    with naming(body, next(one for one in PROMPTS if one in body)):
        if job.request.config.num_beams > 1:
            cache_tokens = request.app.state.limits.cache_tokens
            answer = await answered(request, searched(served, job, cache_tokens), deadline)
        else:
            answer = await begin(served, job, streams)
    with ExitStack() as stack:
        stack.callback(ended, request, answer)
        if not streams:
            texts = await answered(request, answer.whole(), deadline)
            return JSONResponse(await run_in_threadpool(shape.complete, answer, texts))
        steps = deadline.until(answer.steps())
        first = await while_there(request, anext(steps))
        objects = shape.events(answer, _joined(first, steps))
        left, paths = stack.pop_all().close, request.app.state.paths
        return Events(objects, left, deadline, paths, named=shape.named)


async def _joined(first: list[tuple[int, str]], steps: Steps) -> Steps:
    yield first
    async for step in steps:
        yield step
