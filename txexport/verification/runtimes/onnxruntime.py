"""ONNX Runtime in this process, as applications use it, and without graph optimisations."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import onnxruntime as ort

from txexport.bundle.manifest import Manifest
from txexport.runtime.engines.onnxruntime import open_sessions
from txexport.runtime.session import Session
from txexport.verification.checks import RUNTIME
from txexport.verification.runtimes.runtime import Files, Options, Runtime


@contextmanager
def _open(
    optimize: bool, files: Files, device: str | None, options: Options
) -> Iterator[tuple[str, dict[str, Session]]]:
    yield open_sessions(files, device, None, options, optimize=optimize)


def _refuses(folder: Path, manifest: Manifest) -> str | None:
    return manifest.refused_by(ort.__version__)


OPTIMIZED = Runtime(RUNTIME, partial(_open, True), devices=True, refuses=_refuses)
UNOPTIMIZED = Runtime("onnxruntime-unoptimized", partial(_open, False), devices=True, refuses=_refuses)
