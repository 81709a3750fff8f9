"""A web service over a bundle that generates: text as it is made, or whole.

    pip install 'txexport[cpu]' starlette uvicorn
    BUNDLE=decoder uvicorn service:app

    curl -N localhost:8000/stream -d '{"prompt": "Once upon a time", "max_new_tokens": 40}'
    curl localhost:8000/generate -d '{"prompts": ["Once upon a time"], "num_beams": 4}'

A request's other values are options of generation, those of `request_body.OPTIONS`. A model is loaded once
and asked from several threads: by RUNNING requests at a time, while WAITING more may wait before others are
turned away. A request ends with its client: each step first looks whether that is still there.
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
    """A generation was ended before its time."""


class Job:
    """One of the requests that run: it ends at its next step when its client has gone or its time is up."""

    def __init__(self, slots: asyncio.Semaphore, request: Request):
        self.slots, self.gone, self.until = slots, threading.Event(), time.monotonic() + SECONDS
        self.watching = asyncio.create_task(self.watch(request))

    def step(self, tokens, scores):
        """Before each new token, as a `logits_processor` that changes nothing. Raises StoppedError."""
        if self.gone.is_set() or time.monotonic() > self.until:
            raise StoppedError
        return scores

    async def watch(self, request: Request) -> None:
        """Tell the generation when the client has gone."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    def end(self) -> None:
        """Make room for another request."""
        self.watching.cancel()
        self.gone.set()
        self.slots.release()


class Jobs:
    """Who runs and who waits."""

    def __init__(self) -> None:
        self.slots, self.waiting = asyncio.Semaphore(RUNNING), 0

    async def start(self, request: Request) -> Job:
        """Wait for a slot. Raises HTTPException where too many wait, or it takes too long."""
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
    """Text as it is made. A client that has gone, or reads too slowly, ends the job.

    It may go long before the next piece: beams give all at their end, half a character waits for its rest.
    So the job watches it, from before the first piece.
    """

    def __init__(self, pieces: Iterator[str], job: Job):
        super().__init__(pieces, media_type="text/plain; charset=utf-8")
        self.job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them. Where the time is up the connection breaks off, so that nobody takes it for the end."""
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
        """The text of one prompt, in pieces."""
        asked = await request_body.read(request)
        prompt, options = request_body.prompt(asked), request_body.options(asked)
        job = await jobs.start(request)
        try:
            pieces = model.stream(prompt, logits_processor=job.step, **options)
            # What cannot be is told before the answer begins.
            first = await run_in_threadpool(next, pieces, "")
        except BaseException:
            job.end()
            raise

        def all_pieces() -> Iterator[str]:
            yield first
            yield from pieces

        return Pieces(all_pieces(), job)

    async def generate(request: Request) -> Response:
        """The texts of several prompts, in one batch."""
        asked = await request_body.read(request)
        prompts, options = request_body.prompts(asked), request_body.options(asked)
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
    """One line that says what was wrong."""
    return answer(refused(str(error)))


async def stopped(request: Request, error: Exception) -> Response:
    """A line for who waited too long; who has gone does not read it."""
    return answer(refused(f"the answer took more than {SECONDS:g} seconds", 503, retry_after="30"))


def answer(error: HTTPException) -> Response:
    """An error as plain text."""
    return PlainTextResponse(error.detail, error.status_code, error.headers)


if "BUNDLE" in os.environ:
    app = service(txexport.load(os.environ["BUNDLE"]))
