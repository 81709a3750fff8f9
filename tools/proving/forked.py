"""Work in children that have the libraries loaded already, some at a time, each with a limit of time."""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

FORK = multiprocessing.get_context("fork")


def forked(
    work: Callable[[str], dict[str, Any]], names: Iterable[str], jobs: int, seconds: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The result of `work` for each name as it ends; of one that took too long, died or raised, why."""
    left, running = list(names), {}
    while left or running:
        while left and len(running) < jobs:
            name = left.pop(0)
            receiver, sender = FORK.Pipe(duplex=False)
            child = FORK.Process(target=_answer, args=(work, name, sender))
            child.start()
            sender.close()
            running[receiver] = name, child, time.monotonic() + seconds
        for ready in wait([*running], timeout=1):
            name, child, _ = running.pop(ready)
            try:
                yield name, ready.recv()
            except EOFError:
                yield name, {"error": "the process died"}
            child.join()
        for receiver, (name, child, until) in [*running.items()]:
            if time.monotonic() > until:
                child.kill()
                del running[receiver]
                yield name, {"error": f"took more than {seconds:.0f} seconds"}


def _answer(work: Callable[[str], dict[str, Any]], name: str, sender: Connection) -> None:
    try:
        sender.send(work(name))
    except Exception as error:
        sender.send({"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})
