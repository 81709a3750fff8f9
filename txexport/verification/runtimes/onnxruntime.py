"""ONNX Runtime in this process, as applications use it, and without its rewriting of graphs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from txexport.runtime.engines.onnxruntime import open_sessions
from txexport.runtime.session import Session
from txexport.verification.checks import RUNTIME
from txexport.verification.runtimes.runtime import Files, Runtime

Opened = tuple[str, dict[str, Session]]


@contextmanager
def _open(optimize: bool, exact: bool, files: Files, device: str | None) -> Iterator[Opened]:
    yield open_sessions(files, device, None, optimize=optimize, exact=exact)


def _opener(
    optimize: bool, exact: bool = False
) -> Callable[[Files, str | None], AbstractContextManager[Opened]]:
    return partial(_open, optimize, exact)


OPTIMIZED = Runtime(RUNTIME, _opener(True), devices=True, open_exact=_opener(True, exact=True))
UNOPTIMIZED = Runtime(
    "onnxruntime-unoptimized", _opener(False), devices=True, open_exact=_opener(False, exact=True)
)
