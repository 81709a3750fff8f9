"""The environment of a verification: libraries, Python, platform, processor."""

import contextlib
import functools
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.metadata import PackageNotFoundError, packages_distributions
from pathlib import Path

LIBRARIES = ("txexport", "onnx", "torch", "transformers", "numpy")
QUIET = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
CPUINFO = Path("/proc/cpuinfo")
version = functools.cache(metadata.version)  # which reads a file


@contextlib.contextmanager
def quiet_references() -> Iterator[None]:
    """Turn off the messages and progress of transformers about checkpoints, unless it is imported already."""
    added = {name: value for name, value in QUIET.items() if name not in os.environ}
    if "transformers" in sys.modules:
        added = {}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def versions() -> dict[str, str]:
    """The versions of the installed libraries, and of whichever build of ONNX Runtime."""
    return of(dict.fromkeys([*LIBRARIES, *_builds()]))


def of(names: Iterable[str]) -> dict[str, str]:
    """The versions of those of the libraries that are installed."""
    result = {}
    for name in names:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            continue
    return result


@functools.cache
def _builds() -> list[str]:
    """The distributions that provide onnxruntime; cached, since the search is slow."""
    return packages_distributions().get("onnxruntime", [])


def environment() -> dict[str, str]:
    """Python, platform, processor and its number of cores."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
    }


def _processor() -> str:
    """The processor's name, on Linux from /proc/cpuinfo."""
    if CPUINFO.is_file():
        for line in CPUINFO.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
