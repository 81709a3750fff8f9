"""onnxruntime-web alone, in a process of Node: a graph and its weights as bytes."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from txexport.verification.runtimes import npm
from txexport.verification.runtimes.frames import decode, encode

PACKAGE = "onnxruntime-web"
SCRIPT = Path(__file__).with_name("answer.mjs")
PATIENCE = 240  # seconds for an answer


def missing() -> str | None:
    """The reason why it cannot run here, or None."""
    return npm.missing(PACKAGE) if shutil.which("node") else "node is not installed"


def run(graph: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of a graph by name; its weights lie beside it. Raises RuntimeError with the error message."""
    command = ["node", str(SCRIPT), str(npm.find(PACKAGE)), str(graph.resolve())]
    process = subprocess.run(command, input=encode({}, feeds), capture_output=True, timeout=PATIENCE)
    if process.returncode != 0:
        lines = process.stderr.decode(errors="replace").splitlines()
        raise RuntimeError(next((line for line in lines if re.match(r"\w*Error\b", line)), lines[-1:]))
    return decode(process.stdout)[1]
