"""A pool of workers: each takes the next mutant, and one that dies is reported and replaced."""

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path

from fuzzing.worker import Limits, Mutant, Result, place_of_trace, serve

FORK = multiprocessing.get_context("fork")  # the parent's imports are shared
PATIENCE = 2.0  # multiple of the wall clock limit after which a worker is killed from outside


class Worker:
    """A process with limits, and its current mutant."""

    def __init__(self, seeds: Path, limits: Limits):
        self.limits, self.mutant, self.since = limits, None, 0.0
        self.box = Path(tempfile.mkdtemp(prefix="mutant-", dir=seeds.parent))
        self.connection, theirs = FORK.Pipe()
        self.process = FORK.Process(target=_started, args=(theirs, self.connection, seeds, self.box, limits))
        self.process.start()
        theirs.close()

    def give(self, mutant: Mutant) -> None:
        """The next mutant."""
        self.mutant, self.since = mutant, time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it died; `result` reports how
            self.connection.send(mutant)

    def done(self) -> bool:
        """Tell whether there is a result, or the process has ended; one past all its limits is killed.

        The end of the pipe is no sign: a subprocess may hold it open.
        """
        if time.monotonic() - self.since > PATIENCE * self.limits.wall:
            self.process.kill()
        return self.connection.poll() or not self.process.is_alive()

    def result(self) -> Result:
        """The result of the current mutant; where the process died, how."""
        try:
            if self.connection.poll():
                return self.connection.recv()
            raise EOFError
        except (EOFError, ConnectionResetError):
            self.process.join()
            trace = _text(self.box / "trace")
            notes = _text(self.box / "notes").splitlines()
            return Result(
                self._death(), place_of_trace(trace), notes, trace, time.monotonic() - self.since, last=True
            )

    def _death(self) -> str:
        code = self.process.exitcode or 0
        if code == -signal.SIGPROF:
            return f"took > {self.limits.processor:g} s of processor"
        if code in (-signal.SIGALRM, -signal.SIGKILL):
            return f"took > {self.limits.wall:g} s"
        return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"

    def end(self) -> None:
        """Kill it and its subprocesses."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # it has ended, or not started
            self.process.kill()
        self.process.join()
        self.connection.close()


def _started(theirs: Connection, ours: Connection, seeds: Path, box: Path, limits: Limits) -> None:
    ours.close()  # copied by the fork
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(theirs, seeds, box, limits)


def _text(file: Path) -> str:
    return file.read_text("utf-8", errors="replace") if file.is_file() else ""


def run(
    mutants: Iterable[Mutant], seeds: Path, limits: Limits, count: int
) -> Iterator[tuple[Mutant, Result]]:
    """The results of all mutants as they arrive, from that number of workers."""
    left = iter(mutants)
    busy: dict[Connection, Worker] = {}

    def feed(worker: Worker | None) -> None:
        mutant = next(left, None)
        if mutant is None:
            if worker is not None:
                worker.end()
            return
        worker = worker or Worker(seeds, limits)
        worker.give(mutant)
        busy[worker.connection] = worker

    try:
        for _ in range(count):
            feed(None)
        while busy:
            wait(list(busy), timeout=0.5)
            for worker in [worker for worker in busy.values() if worker.done()]:
                del busy[worker.connection]
                result = worker.result()
                yield worker.mutant, result
                if result.last:
                    worker.end()
                feed(None if result.last else worker)
    finally:
        for worker in busy.values():
            worker.end()
