"""transformers.js, in a process of Node or on a page in headless Chromium, one request after another.

    with node() as client:
        client.pipeline("text-classification", folder, "It works.")

A bundle is a folder here or, with `Remote`, a repository of a hub.
"""

import json
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from txexport.verification.runtimes import npm, web
from txexport.verification.runtimes.page import serve

PACKAGE = "@huggingface/transformers"
SCRIPTS = Path(__file__).parent
PATIENCE = 240  # seconds for an answer

Ask = Callable[[dict[str, Any]], str]


class ClientError(RuntimeError):
    """An error of transformers.js, or the end of its process."""


@dataclass(frozen=True)
class Remote:
    """A bundle of a hub: `name` as "organisation/model", `host` as "http://127.0.0.1:8000/"."""

    host: str
    name: str
    revision: str = "main"


Bundle = Path | Remote


class Client:
    """Requests to transformers.js; `warnings` are those of the last one."""

    def __init__(
        self, ask: Ask, locate: Callable[[Path], tuple[str, dict[str, Any]]], settings: dict[str, Any]
    ):
        self._ask, self._locate, self._settings = ask, locate, settings
        self.warnings: list[str] = []

    def pipeline(self, task: str, bundle: Bundle, *arguments: Any) -> Any:
        """The pipeline's answer to `arguments`; an object as the last one has its options."""
        return self._send("pipeline", bundle, task=task, arguments=encoded(arguments))

    def forward(self, architecture: str, bundle: Bundle, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs of a model's class, by name."""
        return self._send("forward", bundle, architecture=architecture, feeds=encoded(feeds))

    def generate(
        self, architecture: str, bundle: Bundle, feeds: Mapping[str, Any], **generation: Any
    ) -> list[list[int]]:
        """The token ids of each row, with those of the prompt or the decoder's start."""
        return self._send(
            "generate", bundle, architecture=architecture, feeds=encoded(feeds), generation=generation
        )

    def files(self, task: str, bundle: Bundle) -> list[str]:
        """The files that a pipeline would load."""
        return self._send("files", bundle, task=task)

    def _send(self, call: str, bundle: Bundle, **request: Any) -> Any:
        """Send a request. Raises ClientError if transformers.js does."""
        options: dict[str, Any] = {}
        if isinstance(bundle, Remote):
            model, env = bundle.name, {"remoteHost": bundle.host, "allowLocalModels": False}
            env |= {"allowRemoteModels": True} | self._settings
            options["revision"] = bundle.revision
        else:
            model, env = self._locate(bundle)
            env |= {"allowLocalModels": True, "allowRemoteModels": False}
        message = {"call": call, "model": model, "env": env, "options": options, **request}
        answer = json.loads(self._ask(message))
        self.warnings = answer["warnings"]
        if "error" in answer:
            raise ClientError("\n".join([answer["error"], *self.warnings]))
        return decoded(answer["value"])


def encoded(value: Any) -> Any:
    """Arrays as JSON tensors, recursively."""
    if isinstance(value, np.ndarray):
        kind = {"b": "bool", "i": "int64", "u": "int64"}.get(value.dtype.kind, "float32")
        return {"tensor": {"type": kind, "dims": list(value.shape), "data": value.ravel().tolist()}}
    if isinstance(value, Mapping):
        return {key: encoded(part) for key, part in value.items()}
    return [encoded(part) for part in value] if isinstance(value, list | tuple) else value


def image(pixels: np.ndarray) -> dict[str, Any]:
    """An image (height, width, channels) of bytes as a pipeline's argument."""
    height, width, channels = pixels.shape
    data = {"data": pixels.ravel().tolist(), "width": width, "height": height, "channels": channels}
    return {"image": data}


def audio(samples: np.ndarray) -> dict[str, Any]:
    """Sound as a pipeline's argument."""
    return {"audio": samples.astype(np.float32).tolist()}


def decoded(value: Any) -> Any:
    """The arrays of `encoded`, recursively."""
    if isinstance(value, dict) and value.keys() == {"tensor"}:
        listed = value["tensor"]
        return np.array(listed["data"], listed["type"]).reshape(listed["dims"])
    if isinstance(value, dict):
        return {key: decoded(part) for key, part in value.items()}
    return [decoded(part) for part in value] if isinstance(value, list) else value


def missing_in_node() -> str | None:
    """The reason why it cannot run in Node, or None."""
    return npm.missing(PACKAGE) if shutil.which("node") else "node is not installed"


def missing_in_chromium() -> str | None:
    """The reason why it cannot run in Chromium, or None."""
    if web.browser() is None:
        return "Chromium is not installed; install it, or set CHROME_BIN to its path"
    return npm.missing(PACKAGE)


@contextmanager
def node() -> Iterator[Client]:
    """transformers.js with onnxruntime-node; downloads are deleted at the end."""
    command = ["node", str(SCRIPTS / "node.mjs"), str(npm.find(PACKAGE))]
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryDirectory(prefix="txexport-") as cache:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        try:
            settings = {"useFSCache": True, "cacheDir": f"{cache}/"}
            yield Client(_lines(process, errors), lambda folder: (str(folder.resolve()), {}), settings)
        finally:
            process.kill()
            process.communicate()  # which closes its pipes


def _lines(process: subprocess.Popen, errors: IO[bytes]) -> Ask:
    """A function that sends requests by lines. Raises ClientError if the process ends or takes too long."""
    answers: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answers.put(line)
        answers.put(b"")

    threading.Thread(target=read, daemon=True).start()

    def ask(request: dict[str, Any]) -> str:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer = answers.get(timeout=PATIENCE)
        except BrokenPipeError:
            answer = b""
        except queue.Empty:
            raise ClientError(f"Node gave no answer within {PATIENCE} seconds") from None
        if not answer:
            errors.seek(0)
            raise ClientError(f"Node ended: {errors.read().decode(errors='replace').strip()}")
        return answer.decode()

    return ask


@contextmanager
def chromium() -> Iterator[Client]:
    """transformers.js with onnxruntime-web's WebAssembly, all of it served from this machine."""
    package = npm.find(PACKAGE)
    assert package is not None
    shown = {"": SCRIPTS / "page.html", "answer.mjs": SCRIPTS / "answer.mjs"}
    shown |= {f"library/{path.name}": path for path in (package / "dist").iterdir()}
    shown |= {f"ort/{path.name}": path for path in (runtime_of(package) / "dist").iterdir()}
    with serve(shown) as page, web.chromium(page.url):

        def locate(folder: Path) -> tuple[str, dict[str, Any]]:
            name = f"bundle{abs(hash(folder))}"
            files = [path for path in folder.rglob("*") if path.is_file()]
            parts = {f"models/{name}/{path.relative_to(folder).as_posix()}": path for path in files}
            page.shown |= {page.root + part: path for part, path in parts.items()}
            return name, {"localModelPath": f"{page.root}models/", "useBrowserCache": False}

        def ask(request: dict[str, Any]) -> str:
            silence = RuntimeError(f"Chromium gave no answer within {PATIENCE} seconds")
            timer = threading.Timer(PATIENCE, page.answers.put, [silence])
            timer.start()
            try:
                return page.send(json.dumps(request).encode()).decode()
            except RuntimeError as error:
                raise ClientError(str(error)) from error
            finally:
                timer.cancel()

        yield Client(ask, locate, {"useBrowserCache": False})


def runtime_of(package: Path) -> Path:
    """The folder of transformers.js' onnxruntime-web: its own dependency, or a package beside it."""
    folders = [
        package / "node_modules",
        *(folder for folder in package.parents if folder.name == "node_modules"),
    ]
    return next(one / web.PACKAGE for one in folders if (one / web.PACKAGE / "package.json").is_file())
