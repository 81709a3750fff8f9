"""Answers that come in pieces, as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from txexport.server.refusals import refusal_of

T = TypeVar("T")


class Events(StreamingResponse):
    """JSON objects as events, and the one that ends them. Whatever ends it, `left` is called."""

    def __init__(self, objects: AsyncIterator[dict[str, Any]], left: Callable[[], None]):
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(_lines(objects), media_type="text/event-stream", headers=headers)
        self.left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them while the client is there."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.left()


async def _lines(objects: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    try:
        async for one in objects:
            yield f"data: {json.dumps(one)}\n\n"
    except Exception as error:  # the answer has begun, so its status cannot tell
        yield f"data: {json.dumps(refusal_of(error).body)}\n\n"
    yield "data: [DONE]\n\n"


async def while_there(request: Request, answer: Awaitable[T]) -> T:
    """The answer, unless its client goes first. Raises ClientDisconnect."""
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
