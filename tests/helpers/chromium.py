"""Headless Chromium, driven through the DevTools protocol."""

import base64
import contextlib
import fcntl
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from txexport.verification.runtimes import web

READ, WRITE = 3, 4  # the file descriptors on which Chromium reads and writes
MISSING = None if web.browser() else "no Chromium is installed to show a page in"


class PageError(AssertionError):
    """A page failed, or a wait timed out."""


class Page:
    """An open page; `errors` are those of its scripts and of files that failed to load."""

    def __init__(self, commands: int, answers: int):
        self._commands, self._answers = os.fdopen(commands, "wb"), os.fdopen(answers, "rb")
        self._number, self._rest, self._session = 0, b"", None
        self.errors: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for part in ("Runtime", "Log", "Page"):
            self._call(f"{part}.enable")

    def open(self, url: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a URL in a window of that size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Evaluate an expression on the page."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise PageError(result["exceptionDetails"]["exception"].get("description", expression))
        return result["result"].get("value")

    def until(self, expression: str, seconds: float = 90) -> Any:
        """Wait until an expression is true and return it. Raises PageError on timeout."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # While a page is loading, there is no context to evaluate in.
            with contextlib.suppress(PageError):
                value = self.value(expression)
                if value:
                    return value
            time.sleep(0.1)
        raise PageError(f"after {seconds} seconds still not: {expression}\n" + "\n".join(self.errors))

    def picture(self, path: Path) -> None:
        """Write a screenshot as PNG."""
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._next()
            self._note(answer)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = self._answers.read1(1 << 16)
            if not part:
                raise PageError("Chromium has ended")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")


@contextmanager
def chromium(gpu: Sequence[str] = web.NO_GPU) -> Iterator[Page]:
    """A page in a new browser with an empty profile; `gpu` are its options for the GPU."""
    options = [
        "--headless=new",
        "--remote-debugging-pipe",
        "--no-first-run",
        "--hide-scrollbars",
        *gpu,
    ]
    options += ["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")  # root cannot use the sandbox
    heard, commands = os.pipe()
    answers, said = os.pipe()
    # Move descriptors out of the way of those that Chromium expects, so that neither is overwritten.
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (heard, said)]

    def connect() -> None:
        for end, number in zip(theirs, (READ, WRITE), strict=True):
            os.dup2(end, number)

    with tempfile.TemporaryDirectory(prefix="txexport-", ignore_cleanup_errors=True) as profile:
        command = [web.browser() or "", *options, f"--user-data-dir={profile}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, pass_fds=(READ, WRITE), preexec_fn=connect, **quiet)
        for end in (heard, said, *theirs):
            os.close(end)
        try:
            yield Page(commands, answers)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
