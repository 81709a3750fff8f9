"""What completions and conversations share: rows that run, texts that grow, tokens counted."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from txexport.runtime.generation import scheduler
from txexport.runtime.generation.requests import GenerationRequest, request_of
from txexport.runtime.generation.running_batch import RunningRow, rows_of
from txexport.server.fields import options_of
from txexport.server.refusals import RefusedError
from txexport.server.served import Limits, Served
from txexport.server.texts import RowText
from txexport.server.workers import Generation

NEW_TOKENS = 16  # of a completion where nobody says, as OpenAI has it


@dataclass(frozen=True)
class Asked:
    """A request for texts: the rows' request, how many of each, and what is told of tokens."""

    request: GenerationRequest
    copies: int
    alternatives: int | None  # None where no log-probabilities are asked for
    stops: Sequence[str]

    @property
    def prompt_tokens(self) -> int:
        """Those of all prompts."""
        return sum(len(row) for row in self.request.inputs)


def asked_of(
    served: Served,
    inputs: Sequence[Sequence[int]],
    asked: Mapping[str, Any],
    limits: Limits,
    *,
    new_tokens: int | None,
    alternatives: int | None = None,
    **more: Any,
) -> Asked:
    """The request for rows of token ids. `new_tokens` is asked for, or None for as many as there is room.

    Raises RefusedError and InputError for what cannot be.
    """
    bundle = served.model.bundle
    options = options_of(asked, bundle.files.generation_config.do_sample) | more
    if new_tokens is not None and new_tokens > limits.max_new_tokens:
        most = limits.max_new_tokens
        raise RefusedError(
            f"max_tokens is {new_tokens}, and this server gives at most {most}", param="max_tokens"
        )
    strict = new_tokens is not None
    options |= {"max_new_tokens": new_tokens or limits.max_new_tokens, "max_length": None}
    request = replace(request_of(bundle, inputs, None, options), strict=strict)
    request = replace(request, log_probs=alternatives is not None)
    stops = tuple(request.config.stop_strings)
    return Asked(request, asked.get("n", 1), alternatives, stops)


def start(served: Served, asked: Asked) -> list[RunningRow]:
    """The rows of a request, `copies` of each prompt in turn. Raises InputError."""
    config, copies = asked.request.config, asked.copies
    if config.do_sample or copies == 1:
        config = replace(config, num_return_sequences=copies)
        return rows_of(replace(asked.request, config=config), asked.alternatives or 0)
    inputs = [row for row in asked.request.inputs for _ in range(copies)]  # alike, but asked for
    return rows_of(replace(asked.request, inputs=inputs), asked.alternatives or 0)


class Answer:
    """The texts of a request while its rows run."""

    def __init__(self, served: Served, asked: Asked, generation: Generation):
        self.asked, self.generation = asked, generation
        text = served.model.bundle.files.text
        self.texts = [RowText(text, row, asked.stops) for row in generation.rows]

    async def steps(self) -> AsyncIterator[list[tuple[int, str]]]:
        """The pieces that have come, each with its row's number. Raises what a row failed with."""
        while True:
            await self.generation.grown.wait()
            self.generation.grown.clear()
            done = self.generation.done
            for row in self.generation.rows:
                if row.error is not None:
                    raise row.error
            yield [(number, text.more()) for number, text in enumerate(self.texts) if not text.ended]
            if done and all(text.ended for text in self.texts):
                return

    async def whole(self) -> list[str]:
        """The texts when all rows are done."""
        texts = [""] * len(self.texts)
        async for step in self.steps():
            for number, piece in step:
                texts[number] += piece
        return texts

    @property
    def usage(self) -> dict[str, int]:
        """Tokens that were read and made, as OpenAI counts them."""
        made = sum(len(row.result.tokens) for row in self.generation.rows)
        return usage(self.asked.prompt_tokens, made)


def usage(read: int, made: int) -> dict[str, int]:
    """Tokens as OpenAI's answers have them."""
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}


async def begin(served: Served, asked: Asked, streams: bool) -> Answer:
    """Let the rows run. Raises RefusedError where too many wait, InputError for what cannot be."""
    rows = await run_in_threadpool(start, served, asked)
    assert served.generation is not None
    return Answer(served, asked, served.generation.start(rows, streams))


def ended(request: Request, answer: Answer) -> None:
    """Let the rows leave that still run, and note what was read and made."""
    answer.generation.cancel()
    request.state.usage = answer.usage


async def searched(served: Served, asked: Asked) -> tuple[list[str], int]:
    """The texts of beams, which run in a batch of their own, and how many tokens they have."""
    copies = asked.copies
    config = replace(asked.request.config, num_return_sequences=copies)
    request = replace(asked.request, config=config)
    results = await served.calls.call(lambda _: [scheduler.finished(request)], [None])
    rows = [RunningRow(request, 0, result=one, done=True, closed=True) for one in results[0]]
    text = served.model.bundle.files.text
    return [RowText(text, row, asked.stops).more() for row in rows], sum(len(r.result.tokens) for r in rows)
