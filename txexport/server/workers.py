"""The threads that run a bundle: continuous batching for generation, batched calls for all else."""

import asyncio
import queue
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from txexport.runtime.generation.running_batch import RunningBatch, RunningRow
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.server.refusals import full

TOGETHER = 256  # inputs of one gathered call
TEXTS = 16  # texts that may wait, for each request that may wait


class Generation:
    """The rows of one request, and an event: when they are done or, for streams, have grown."""

    def __init__(self, rows: Sequence[RunningRow], streams: bool):
        self.rows, self.streams = rows, streams
        self.loop, self.grown = asyncio.get_running_loop(), asyncio.Event()

    @property
    def done(self) -> bool:
        """Return whether all rows are done."""
        return all(row.done for row in self.rows)

    @property
    def waits(self) -> bool:
        """Return whether a row waits for room; rows start in order."""
        last = self.rows[-1]
        return last.plan is None and not last.done and not last.cancelled

    def cancel(self) -> None:
        """Cancel the rows."""
        for row in self.rows:
            row.cancelled = True


class GenerationThread:
    """Extends the rows of all requests to one bundle, step by step."""

    def __init__(self, bundle: LoadedBundle, cache_tokens: int, most_waiting: int):
        self.batch, self.most_waiting = RunningBatch(bundle, cache_tokens), most_waiting
        self.owners: dict[RunningRow, Generation] = {}
        self.news: list[Generation] = []
        self.queue: list[Generation] = []  # waiting requests; the next count removes those that have started
        self.changed, self.stopped = threading.Condition(), False
        self.thread = threading.Thread(target=self._run, name=f"generate {bundle.folder}", daemon=True)
        self.thread.start()

    @property
    def waiting(self) -> int:
        """The number of requests with rows that wait for room."""
        with self.changed:
            self.queue = [one for one in self.queue if one.waits]
            return len(self.queue)

    @property
    def running(self) -> int:
        """The number of rows in prefill or decoding."""
        return max(0, len(self.owners) - len(self.batch.waiting))

    def start(self, rows: Sequence[RunningRow], streams: bool) -> Generation:
        """Queue rows; `streams` reports each token. Raises RefusedError where too many requests wait."""
        with self.changed:
            texts = len(self.batch.waiting) + sum(len(one.rows) for one in self.news)
            if self.waiting >= self.most_waiting or texts >= TEXTS * self.most_waiting:
                raise full()
            generation = Generation(rows, streams)
            self.news.append(generation)
            self.queue.append(generation)
            self.changed.notify()
        return generation

    def stop(self) -> None:
        """End the thread when its rows are done."""
        with self.changed:
            self.stopped = True
            self.changed.notify()
        self.thread.join()

    def _run(self) -> None:
        while True:
            with self.changed:
                while not self.news and not self.batch.busy and not self.stopped:
                    self.changed.wait()
                if self.stopped and not self.news and not self.batch.busy:
                    return
                news, self.news = self.news, []
                for generation in news:
                    self.owners.update(dict.fromkeys(generation.rows, generation))
                    self.batch.add(generation.rows)
            try:
                changed = self.batch.step()
            except Exception as error:  # requests share the thread, so it goes on with the next ones
                changed = self.batch.fail(error)
            self._tell(changed)

    def _tell(self, rows: Sequence[RunningRow]) -> None:
        """Wake the requests whose rows have grown, once an event loop."""
        grown = {owner for row in rows if (owner := self.owners.get(row)) is not None}
        grown = {one for one in grown if one.streams or one.done}
        for row in rows:
            if row.done:
                self.owners.pop(row, None)
        for loop in {generation.loop for generation in grown}:
            events = [one.grown for one in grown if one.loop is loop]
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, events)


def _wake(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        event.set()


@dataclass
class _Call:
    """A queued call. Calls with the same `key` may be merged into one, with answers in their order."""

    function: Callable[[list], Iterable]
    inputs: list
    key: Hashable | None
    future: Future = field(default_factory=Future)
    left: bool = False  # the caller no longer waits


class CallThread:
    """Runs calls of one bundle, one after another; merges waiting calls with the same key."""

    def __init__(self, name: str, most_waiting: int):
        self.calls: queue.Queue[_Call | None] = queue.Queue()
        self.left: list[_Call] = []  # taken from the queue, with another key than the calls that ran
        self.most_waiting = most_waiting
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    @property
    def waiting(self) -> int:
        """The number of waiting calls."""
        return self.calls.qsize() + len(self.left)

    async def call(
        self, function: Callable[[list], Iterable], inputs: Sequence, key: Hashable | None = None
    ) -> Sequence:
        """The answers of `function` to `inputs`, one each. Raises RefusedError where too many calls wait.

        An iterator that `function` returns is not read further when the caller no longer waits.
        """
        if self.waiting >= self.most_waiting:
            raise full()
        call = _Call(function, list(inputs), key)
        self.calls.put(call)
        try:
            return await asyncio.wrap_future(call.future)
        except asyncio.CancelledError:
            call.left = True
            raise

    def stop(self) -> None:
        """End the thread after the waiting calls."""
        self.calls.put(None)
        self.thread.join()

    def _run(self) -> None:
        while True:
            first = self.left.pop(0) if self.left else self.calls.get()
            if first is None:
                return
            calls, self.left, stop = self._gathered(first)
            if stop:
                self.calls.put(None)
            _answer([call for call in calls if call.future.set_running_or_notify_cancel()])

    def _gathered(self, first: _Call) -> tuple[list[_Call], list[_Call], bool]:
        """Calls with the key of the first one, other calls in between, and whether to stop after them."""
        calls, others = [first], list[_Call]()
        sources = iter(self.left)
        while first.key is not None and sum(len(call.inputs) for call in calls) < TOGETHER:
            call = next(sources, None)
            if call is None:
                try:
                    call = self.calls.get_nowait()
                except queue.Empty:
                    break
                if call is None:
                    return calls, others, True
            (calls if call.key == first.key else others).append(call)
        return calls, [*others, *sources], False


def _answer(calls: Sequence[_Call]) -> None:
    """Answer calls together or, where that fails, one by one, so that an error affects one call only."""
    if not calls:
        return
    try:
        answers = iter(calls[0].function([one for call in calls for one in call.inputs]))
        results: list[Any] = []
        for call in calls:
            results.append([])
            for _ in call.inputs:
                if all(one.left for one in calls):
                    return
                results[-1].append(next(answers))
    except Exception as error:
        if len(calls) > 1:
            for call in calls:
                _answer([call])
        else:
            calls[0].future.set_exception(error)
        return
    for call, result in zip(calls, results, strict=True):
        call.future.set_result(result)
