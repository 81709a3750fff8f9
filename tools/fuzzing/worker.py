"""A process that runs mutants one after another, with resource limits."""

import contextlib
import faulthandler
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import txexport
from fuzzing.case import Case, FaultError, canaries
from fuzzing.seeds import CANARY
from fuzzing.targets import TARGETS

GIB = 1 << 30
ADDRESSES = 8 * GIB  # memory beyond the current use that a mutant may allocate before MemoryError
FILES = 1 * GIB  # of one file that is written
MUTANTS = 500  # mutants of one process; a new one has no leftovers
OWN = re.compile(r"(?:^|/)((?:txexport|txgraphs|txmodels|examples/web)/[\w/]+\.py)$")
OUTSIDE = "outside"
TRACED = re.compile(r'File "(.*?)", line (\d+) in (\w+)')


@dataclass(frozen=True)
class Limits:
    """Limits of one mutant: seconds of processor time, seconds of wall time, bytes of memory."""

    processor: float = 5
    wall: float = 60  # far more, since other processes compete for the processor
    memory: int = GIB


@dataclass(frozen=True)
class Mutant:
    """A mutant, repeated by `--target TARGET --only SEED/INDEX`."""

    target: str
    seed: int
    index: int


@dataclass
class Result:
    """The outcome of a mutant: `fault` describes the fault, and `where` its location in our code.

    `last` requests the worker's replacement.
    """

    fault: str | None = None
    where: str = ""
    notes: list[str] = field(default_factory=list)
    trace: str = ""
    seconds: float = 0.0
    last: bool = False


def serve(connection: Connection, seeds: Path, box: Path, limits: Limits) -> None:
    """Run mutants until there are no more. A crash leaves its trace and notes in `box`."""
    os.setsid()  # a process group, so that subprocesses end too
    _set_limits(box)
    base = _peak()
    for count in range(MUTANTS):
        try:
            mutant = connection.recv()
        except EOFError:
            return
        before = _peak()
        result = _run(mutant, seeds, box, limits)
        taken = _peak() - before
        if result.fault is None and taken > limits.memory:
            result.fault = f"took > {limits.memory >> 20} MB"
        result.last = count == MUTANTS - 1 or _peak() - max(base, _resident()) > limits.memory // 4
        connection.send(result)
        if result.last:
            return


def _set_limits(box: Path) -> None:
    """Set limits on addresses and files, silence the output, and enable traces of fatal signals."""
    for kind, size in ((resource.RLIMIT_AS, _addresses() + ADDRESSES), (resource.RLIMIT_FSIZE, FILES)):
        with contextlib.suppress(ValueError, OSError):  # macOS does not limit addresses
            resource.setrlimit(kind, (size, resource.getrlimit(kind)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    trace = (box / "trace").open("w")
    faulthandler.enable(trace)
    for number in (signal.SIGPROF, signal.SIGALRM):
        faulthandler.register(number, trace, chain=True)  # trace, then the default action, which kills
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    sys.stdout, sys.stderr = open(os.devnull, "w"), open(os.devnull, "w")  # noqa: SIM115
    warnings.simplefilter("ignore")


def _run(mutant: Mutant, seeds: Path, box: Path, limits: Limits) -> Result:
    """Run one mutant under the time limits."""
    work, result = box / "work", Result()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    os.chdir(work)
    for canary in canaries(work):
        canary.write_bytes(CANARY)
    case = Case(seeds, work, Random(f"{mutant.seed}/{mutant.target}/{mutant.index}"), box / "notes")
    result.notes = case.notes
    start = time.perf_counter()
    signal.setitimer(signal.ITIMER_PROF, limits.processor)
    signal.setitimer(signal.ITIMER_REAL, limits.wall)
    try:
        TARGETS[mutant.target].run(case)
        case.check_outside()
    except BaseException as error:  # includes a panic of Rust, and SystemExit
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        lines = str(error).splitlines() or [""]
        result.fault = lines[0] if isinstance(error, FaultError) else f"{type(error).__name__}: {lines[0]}"
        cause = error.__cause__ if isinstance(error.__cause__, txexport.TxexportError) else error
        result.where = _place(cause)
        result.trace = "".join(traceback.format_exception(error))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    result.seconds = time.perf_counter() - start
    return result


def _place(error: BaseException) -> str:
    """The innermost frame in our code."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if ours := OWN.search(frame.filename):
            return f"{ours[1]}:{frame.lineno} {frame.name}"
    return OUTSIDE


def place_of_trace(text: str) -> str:
    """The innermost frame in our code of a faulthandler trace."""
    for file, line, name in TRACED.findall(text):
        if ours := OWN.search(file):
            return f"{ours[1]}:{line} {name}"
    return OUTSIDE


def _peak() -> int:
    """The peak memory in bytes of this process and its subprocesses."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * max(
        resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def _resident() -> int:
    return _pages(1)


def _addresses() -> int:
    return _pages(0)


def _pages(place: int) -> int:
    """A number of /proc/self/statm in bytes; 0 where there is none."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[place]) * resource.getpagesize()
    except FileNotFoundError:
        return 0
