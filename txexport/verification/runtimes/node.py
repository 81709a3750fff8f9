"""onnxruntime-node, in a process of Node."""

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from txexport.bundle.manifest import Manifest
from txexport.runtime.session import Session
from txexport.verification.runtimes import npm
from txexport.verification.runtimes.frames import builder
from txexport.verification.runtimes.runtime import Files, Options, Runtime, load

PACKAGE = "onnxruntime-node"
SCRIPT = Path(__file__).with_name("js") / "node.mjs"
LENGTH = struct.Struct("<Q")


def _missing() -> str | None:
    return npm.missing(PACKAGE) if shutil.which("node") else "node is not installed"


def _versions() -> dict[str, str]:
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return {"node": node.strip(), PACKAGE: npm.version(PACKAGE)}


def _send(process: subprocess.Popen, errors: IO[bytes], frame: bytes) -> bytes:
    """The answer to a frame. Raises RuntimeError with the error output if the process has ended."""
    assert process.stdin is not None
    try:
        process.stdin.write(LENGTH.pack(len(frame)) + frame)
        process.stdin.flush()
        return _read(process, LENGTH.unpack(_read(process, LENGTH.size))[0])
    except (BrokenPipeError, EOFError):
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()
        message = next((line for line in lines if re.match(r"\w*Error\b", line)), "it said nothing")
        raise RuntimeError(f"Node ended with code {process.wait()}: {message}") from None


def _read(process: subprocess.Popen, size: int) -> bytes:
    assert process.stdout is not None
    result = process.stdout.read(size)
    if len(result) < size:
        raise EOFError
    return result


@contextmanager
def _open(files: Files, device: str | None, options: Options) -> Iterator[tuple[str, dict[str, Session]]]:
    command = ["node", str(SCRIPT), str(npm.find(PACKAGE))]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        build = builder(
            partial(_send, process, errors),
            lambda path: {"path": str(path.absolute()), "options": dict(options)},
        )
        try:
            yield "cpu", {role: load(path, PACKAGE, build) for role, path in files.items()}
        finally:
            process.kill()
            process.communicate()  # which closes its pipes


def _refuses(folder: Path, manifest: Manifest) -> str | None:
    return manifest.refused_by(npm.version(PACKAGE)) if npm.find(PACKAGE) is not None else None


RUNTIME = Runtime("node", _open, versions=_versions, missing=_missing, refuses=_refuses)
