"""A web service for a generation bundle: streamed or complete texts.

pip install '.[cpu]' starlette uvicorn    # in a checkout of txexport
BUNDLE=decoder uvicorn service:app

curl -N localhost:8000/stream -d '{"prompt": "Once upon a time", "max_new_tokens": 40}'
curl localhost:8000/generate -d '{"prompts": ["Once upon a time"], "num_beams": 4}'

A request's other values are generation options, those of `request_body.OPTIONS`. The model is loaded once and
used by RUNNING threads; WAITING more requests are queued, and further ones are refused. Generation stops when
its client disconnects, which is checked before each step.
"""

import asyncio
import os
import threading
import time
from collections.abc import Iterator

import request_body
from request_body import refused
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import txexport

RUNNING, WAITING = 2, 8  # requests
SECONDS = 60.0  # that a request may wait, and that it may run


class StoppedError(Exception):
    """A generation was stopped early."""


class Job:
    """A running request; it stops at its next step when its client has disconnected or its time is over."""

    def __init__(self, slots: asyncio.Semaphore, request: Request):
        self.slots, self.gone, self.until = slots, threading.Event(), time.monotonic() + SECONDS
        self.watching = asyncio.create_task(self.watch(request))

    def step(self, tokens, scores):
        """A `logits_processor` that changes nothing. Raises StoppedError before the next token."""
        if self.gone.is_set() or time.monotonic() > self.until:
            raise StoppedError
        return scores

    async def watch(self, request: Request) -> None:
        """Stop the generation when the client disconnects."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    def end(self) -> None:
        """Free the slot."""
        self.watching.cancel()
        self.gone.set()
        self.slots.release()


class Jobs:
    """Running and queued requests."""

    def __init__(self) -> None:
        self.slots, self.waiting = asyncio.Semaphore(RUNNING), 0

    async def start(self, request: Request) -> Job:
        """Wait for a slot. Raises HTTPException where the queue is full, or the wait too long."""
        if self.slots.locked() and self.waiting >= WAITING:
            raise refused("too many requests are waiting", 503, retry_after="5")
        self.waiting += 1
        try:
            async with asyncio.timeout(SECONDS):
                await self.slots.acquire()
        except TimeoutError:
            raise refused("the requests before this one take too long", 503, retry_after="30") from None
        finally:
            self.waiting -= 1
        if await request.is_disconnected():
            self.slots.release()
            raise ClientDisconnect
        return Job(self.slots, request)


class Pieces(StreamingResponse):
    """A streamed response. A client that disconnects, or reads too slowly, stops the job.

    The job watches the connection from the start, since the next piece may come late: beam search returns all
    text at its end, and a partial character waits for its remaining bytes.
    """

    def __init__(self, pieces: Iterator[str], job: Job):
        super().__init__(pieces, media_type="text/plain; charset=utf-8")
        self.job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces. On a timeout the connection is aborted, so that it does not look complete."""
        try:
            async with asyncio.timeout(SECONDS):
                await self.stream_response(send)
        except (StoppedError, OSError):
            if not self.job.gone.is_set():
                raise
        finally:
            self.job.end()


def service(model: txexport.Model) -> Starlette:
    """The service of one loaded model."""
    jobs = Jobs()

    async def stream(request: Request) -> Response:
        """Stream the text of one prompt."""
        fields = await request_body.read(request)
        prompt, options = request_body.prompt(fields), request_body.options(fields)
        job = await jobs.start(request)
        try:
            pieces = model.stream(prompt, logits_processor=job.step, **options)
            # Errors of arguments are reported before the response begins.
            first = await run_in_threadpool(next, pieces, "")
        except BaseException:
            job.end()
            raise

        def all_pieces() -> Iterator[str]:
            yield first
            yield from pieces

        return Pieces(all_pieces(), job)

    async def generate(request: Request) -> Response:
        """Generate the texts of several prompts in one batch."""
        fields = await request_body.read(request)
        prompts, options = request_body.prompts(fields), request_body.options(fields)
        job = await jobs.start(request)
        try:
            texts = await run_in_threadpool(model.generate, prompts, logits_processor=job.step, **options)
        finally:
            job.end()
        return JSONResponse({"texts": texts})

    routes = [
        Route("/stream", stream, methods=["POST"]),
        Route("/generate", generate, methods=["POST"]),
    ]
    handlers = {txexport.TxexportError: refuse, StoppedError: stopped, ClientDisconnect: stopped}
    return Starlette(routes=routes, exception_handlers=handlers)


async def refuse(request: Request, error: Exception) -> Response:
    """Report an error in one line."""
    return answer(refused(str(error)))


async def stopped(request: Request, error: Exception) -> Response:
    """Report a timeout in one line; a disconnected client does not read it."""
    return answer(refused(f"the answer took more than {SECONDS:g} seconds", 503, retry_after="30"))


def answer(error: HTTPException) -> Response:
    """An error as plain text."""
    return PlainTextResponse(error.detail, error.status_code, error.headers)


if "BUNDLE" in os.environ:
    app = service(txexport.load(os.environ["BUNDLE"]))
