"""Clients by name, their interpreters, and calls to them in a separate process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import IO, Any

import numpy as np

from txexport.errors import TxexportError, UnsupportedError

WORKER = Path(__file__).with_name("worker.py")
ENVIRONMENTS = Path(".clients")
SECONDS = 600.0  # for the calls of one bundle


@dataclass(frozen=True)
class Call:
    """A call of a function in a client's file: its arrays by name and its options."""

    function: str
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """The result of a call: arrays and other values by name, or the error that it raised."""

    values: Mapping[str, Any]
    error: str | None = None

    def __getitem__(self, name: str) -> Any:
        """The value `name`. Raises TxexportError with the client's message if the call failed."""
        if self.error is not None:
            raise TxexportError(self.error)
        return self.values[name]


@dataclass(frozen=True)
class Client:
    """A client by the name of its file, `NAME_client.py`, with the modules that it needs."""

    name: str
    modules: tuple[str, ...]

    @property
    def variable(self) -> str:
        """The environment variable with the path of its interpreter."""
        return f"TXEXPORT_{self.name.upper()}_PYTHON"

    def python(self) -> Path | None:
        """Its interpreter: this one if it imports here, else the variable's, else that of `.clients`."""
        if all(_importable(module) for module in self.modules):
            return Path(sys.executable)
        if os.environ.get(self.variable):
            return Path(os.environ[self.variable])
        path = ENVIRONMENTS / self.name / "bin" / "python"
        return path.absolute() if path.exists() else None

    def missing(self) -> str | None:
        """The reason why it cannot run here, or None."""
        if self.python() is not None:
            return None
        return f"{self.name} is not installed; run tools/clients/run {self.name}, or set {self.variable}"


class Process:
    """A client's process, started for the first request and again after it has ended early.

    It serves one bundle after another, since its imports take many seconds. `settings` are its environment
    variables; without them it uses no hub. A context manager.
    """

    def __init__(self, client: Client, seconds: float = SECONDS, settings: Mapping[str, str] | None = None):
        self.client, self.settings = client, dict(settings or {})
        self.versions: dict[str, str] = {}
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] | None = None

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, bundle: Path | str, task: str, calls: Sequence[Call]) -> list[Answer]:
        """The client's answers, one for each call; a call that raises gives an Answer with the error.

        `bundle` is a folder, or the name of a repository if the settings name a hub.

        Raises UnsupportedError if the client is not installed, TxexportError if its process ends early or
        takes too long.
        """
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            _write(folder, bundle, task, calls)
            self._serve(folder)
            self.versions, answers = _read(folder)
        return answers

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()  # not read to its end: children of the process may keep it open
        if self._errors is not None:
            self._errors.close()
        self._process = self._errors = None

    def _start(self) -> None:
        python = self.client.python()
        if python is None:
            raise UnsupportedError(str(self.client.missing()))
        # The client must not import txexport's modules, nor use a hub.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(python), str(WORKER), self.client.name],
            env=environment | offline | self.settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def _serve(self, folder: Path) -> None:
        """Have the process answer the request in `folder`."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        limit = Timer(self._seconds, process.kill)
        limit.start()
        try:
            process.stdin.write(f"{folder}\n")
            process.stdin.flush()
            answered = process.stdout.readline() != ""
        except BrokenPipeError:
            answered = False
        finally:
            in_time = limit.is_alive()
            limit.cancel()
        if not answered:
            message = f"{self.client.name} {_end(process.wait())}: {self._last_error()}"
            self.close()
            raise TxexportError(message if in_time else f"{self.client.name} took over {self._seconds:g} s")

    def _last_error(self) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        return lines[-1] if lines else "without an error message"


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a parent package
        return False


def _write(folder: Path, bundle: Path | str, task: str, calls: Sequence[Call]) -> None:
    request = {
        "bundle": str(bundle.absolute() if isinstance(bundle, Path) else bundle),
        "task": task,
        "calls": [{"function": call.function, "options": dict(call.options)} for call in calls],
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    arrays = {f"{i}/{name}": array for i, call in enumerate(calls) for name, array in call.arrays.items()}
    np.savez(folder / "request.npz", **arrays)  # type: ignore[arg-type]


def _read(folder: Path) -> tuple[dict[str, str], list[Answer]]:
    answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    values = [dict(result["values"]) for result in answer["results"]]
    with np.load(folder / "answer.npz") as file:
        for key in file.files:
            i, name = key.split("/", 1)
            values[int(i)][name] = file[key]
    errors = [result["error"] for result in answer["results"]]
    return answer["versions"], [Answer(*pair) for pair in zip(values, errors, strict=True)]


def _end(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


CLIENTS = {
    client.name: client
    for client in (
        Client("optimum", ("optimum.onnxruntime",)),
        Client("sentence_transformers", ("sentence_transformers", "optimum.onnxruntime")),
        Client("genai", ("onnxruntime_genai",)),
        Client("openvino", ("optimum.intel", "openvino")),
        Client("fastembed", ("fastembed",)),
        Client("triton", ("tritonclient.grpc",)),
        Client("kserve", ("kserve",)),
        Client("tract", ("tract",)),
        Client("tools", ("onnxslim", "onnxconverter_common", "onnxruntime", "onnx")),
    )
}
