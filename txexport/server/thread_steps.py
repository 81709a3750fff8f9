"""Steps of an iterator that runs in the thread of a bundle, for a coroutine."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, TypeVar

from txexport.server.workers import CallThread

T = TypeVar("T")


class ThreadSteps(Generic[T]):
    """The items of `iterate()`, which is called and read in the thread of `calls`, as they come.

    Raises RefusedError where too many calls wait.
    """

    def __init__(self, calls: CallThread, iterate: Callable[[], Iterator[T]]):
        self.iterate, self.cancelled = iterate, False
        self.loop, self.queue = asyncio.get_running_loop(), asyncio.Queue[T]()
        self.call = asyncio.ensure_future(calls.call(self._run, [None]))

    def _run(self, _: list) -> Iterator[None]:
        for item in self.iterate():
            if self.cancelled or self.loop.is_closed():
                break
            self.loop.call_soon_threadsafe(self.queue.put_nowait, item)
        yield None

    async def steps(self) -> AsyncIterator[T]:
        """Yield the items. Raises the error of the iterator."""
        while not self.call.done() or not self.queue.empty():
            item = asyncio.ensure_future(self.queue.get())
            try:
                await asyncio.wait({item, self.call}, return_when=asyncio.FIRST_COMPLETED)
                if item.done():
                    yield item.result()
            finally:
                item.cancel()
        self.call.result()

    async def all(self) -> list[T]:
        """All items."""
        return [item async for item in self.steps()]

    def cancel(self) -> None:
        """End after the item that is being made."""
        self.cancelled = True
        self.call.cancel()
