"""Streamed answers, as server-sent events."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from txexport.server.refusals import refusal_of, too_late

LINGER = 5.0  # seconds after its deadline in which a stream's last event may be read
T = TypeVar("T")


class Deadline:
    """The time by which an answer must be complete: the lower of the server's limit and `timeout`."""

    def __init__(self, request: Request, body: Mapping[str, Any] | None = None):
        self.seconds: float = min((body or {}).get("timeout", math.inf), request.app.state.limits.timeout)
        self.at = asyncio.get_running_loop().time() + self.seconds

    async def until(self, steps: AsyncIterator[T]) -> AsyncIterator[T]:
        """Yield the steps before the deadline. Raises RefusedError when it has passed."""
        while True:
            try:
                async with asyncio.timeout_at(self.at):
                    step = await anext(steps)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise too_late(self.seconds) from None
            yield step


class Events(StreamingResponse):
    """JSON objects as events, then the final event. `left` is called at the end, whatever the cause.

    `named` events have their object's type as name, and there is no final event.
    """

    def __init__(
        self,
        objects: AsyncIterator[dict[str, Any]],
        left: Callable[[], None],
        deadline: Deadline,
        paths: Mapping[Path, str],
        named: bool = False,
    ):
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        lines = _named(objects) if named else _lines(objects, paths)
        super().__init__(lines, media_type="text/event-stream", headers=headers)
        self.left, self.deadline = left, deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events while the client is connected and reads them."""
        try:
            async with asyncio.timeout_at(self.deadline.at + LINGER):
                await super().__call__(scope, receive, send)
        except TimeoutError:  # the client does not read, so no error can be sent
            return
        finally:
            self.left()


async def _lines(objects: AsyncIterator[dict[str, Any]], paths: Mapping[Path, str]) -> AsyncIterator[str]:
    try:
        async for one in objects:
            yield f"data: {json.dumps(one)}\n\n"
    except Exception as error:  # the answer has begun, so its status cannot change
        yield f"data: {json.dumps(refusal_of(error, paths).body)}\n\n"
    yield "data: [DONE]\n\n"


async def _named(objects: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    async for one in objects:
        yield f"event: {one['type']}\ndata: {json.dumps(one)}\n\n"


async def answered(request: Request, answer: Awaitable[T], deadline: Deadline | None = None) -> T:
    """Await an answer. Raises RefusedError where it takes too long, ClientDisconnect without a client."""
    deadline = deadline or Deadline(request)
    try:
        async with asyncio.timeout_at(deadline.at):
            return await while_there(request, answer)
    except TimeoutError:
        raise too_late(deadline.seconds) from None


async def while_there(request: Request, answer: Awaitable[T]) -> T:
    """Await an answer. Raises ClientDisconnect if the client disconnects first."""
    working = asyncio.ensure_future(answer)
    watching = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return await working
        raise ClientDisconnect
    finally:
        watching.cancel()
        working.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
