"""A process that runs mutants one after another, with limits that the system keeps."""

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
ADDRESSES = 8 * GIB  # that a mutant may ask for beyond what is there; it is told MemoryError
FILES = 1 * GIB  # of one file that is written
MUTANTS = 500  # of one process; a new one has no leftovers
OWN = re.compile(r"(?:^|/)((?:txexport|txgraphs|txmodels|examples/web)/[\w/]+\.py)$")
OUTSIDE = "outside"
TRACED = re.compile(r'File "(.*?)", line (\d+) in (\w+)')


@dataclass(frozen=True)
class Limits:
    """What one mutant may take: seconds of processor, seconds in all, bytes of memory."""

    processor: float = 5
    wall: float = 60  # far more, since other processes may want the processor too
    memory: int = GIB


@dataclass(frozen=True)
class Mutant:
    """What is repeated by `--target TARGET --only SEED/INDEX`."""

    target: str
    seed: int
    index: int


@dataclass
class Result:
    """What became of a mutant: `fault` says what was wrong with it, and `where` in our code.

    `last` is the worker's wish to be replaced.
    """

    fault: str | None = None
    where: str = ""
    notes: list[str] = field(default_factory=list)
    trace: str = ""
    seconds: float = 0.0
    last: bool = False


def serve(connection: Connection, seeds: Path, box: Path, limits: Limits) -> None:
    """Run the mutants that come until there are no more. What a crash leaves is in `box`: trace and notes."""
    os.setsid()  # so that whatever it starts ends with it
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
    """Limits on addresses and files, no output, and traces of what kills."""
    for kind, size in ((resource.RLIMIT_AS, _addresses() + ADDRESSES), (resource.RLIMIT_FSIZE, FILES)):
        with contextlib.suppress(ValueError, OSError):  # macOS has no limit of addresses
            resource.setrlimit(kind, (size, resource.getrlimit(kind)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    trace = (box / "trace").open("w")
    faulthandler.enable(trace)
    for number in (signal.SIGPROF, signal.SIGALRM):
        faulthandler.register(number, trace, chain=True)  # and then the signal kills
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    sys.stdout, sys.stderr = open(os.devnull, "w"), open(os.devnull, "w")  # noqa: SIM115
    warnings.simplefilter("ignore")


def _run(mutant: Mutant, seeds: Path, box: Path, limits: Limits) -> Result:
    """One mutant under the clock."""
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
    except BaseException as error:  # a panic of Rust's is one, and so is SystemExit
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
    """The innermost frame of ours."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if own := OWN.search(frame.filename):
            return f"{own[1]}:{frame.lineno} {frame.name}"
    return OUTSIDE


def place_of_trace(text: str) -> str:
    """The innermost frame of ours in what faulthandler wrote."""
    for file, line, name in TRACED.findall(text):
        if own := OWN.search(file):
            return f"{own[1]}:{line} {name}"
    return OUTSIDE


def _peak() -> int:
    """The most bytes that this process, or one that it started, ever held."""
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
